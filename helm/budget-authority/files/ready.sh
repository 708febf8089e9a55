# Asks each address, `host:port`, whether it is ready, for up to a minute.
for address; do
	for try in {1..30}; do
		status=
		if exec 3<>"/dev/tcp/${address%:*}/${address##*:}"; then
			printf 'GET /ready HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$address" >&3
			read -r -t 5 _ status _ <&3
			exec 3>&-
		fi
		echo "$address: GET /ready: ${status:-no response}"
		[ "$status" = 200 ] && break
		[ "$try" = 30 ] && exit 1
		sleep 2
	done
done
