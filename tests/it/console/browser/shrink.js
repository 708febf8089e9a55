// Rewrites a PNG, given in base64, with a palette of the 64 colours that occur most: a quarter of the bytes.
const [picture, done] = arguments;
const join = (...parts) => new Uint8Array(parts.flatMap(part => [...part]));
const number = value => [value >>> 24, value >>> 16, value >>> 8, value];
const checksum = bytes => {
  let sum = ~0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? sum >>> 1 ^ 0xedb88320 : sum >>> 1;
  }
  return ~sum;
};
const chunk = (name, data) => {
  const content = join([...name].map(letter => letter.charCodeAt(0)), data);
  return join(number(data.length), content, number(checksum(content)));
};
const shrink = async () => {
  const bytes = Uint8Array.from(atob(picture), letter => letter.charCodeAt(0));
  const bitmap = await createImageBitmap(new Blob([bytes]));
  const {width, height} = bitmap;
  const canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.drawImage(bitmap, 0, 0);
  const pixels = new Uint32Array(canvas.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 64);
  const colours = most.map(([pixel]) => [pixel & 255, pixel >>> 8 & 255, pixel >>> 16 & 255]);
  const nearest = pixel => {
    const far = colour => colour.reduce((sum, value, place) => sum + (value - (pixel >>> 8 * place & 255)) ** 2, 0);
    const distances = colours.map(far);
    return distances.indexOf(Math.min(...distances));
  };
  for (const pixel of counts.keys()) counts.set(pixel, nearest(pixel));
  // Each line begins with the number of its filter, which is none.
  const lines = new Uint8Array((width + 1) * height);
  pixels.forEach((pixel, place) => lines[place + Math.floor(place / width) + 1] = counts.get(pixel));
  const deflated = new Blob([lines]).stream().pipeThrough(new CompressionStream("deflate"));
  const data = new Uint8Array(await new Response(deflated).arrayBuffer());
  const png = join(
    [137, 80, 78, 71, 13, 10, 26, 10],
    chunk("IHDR", [...number(width), ...number(height), 8, 3, 0, 0, 0]),
    chunk("PLTE", colours.flat()),
    chunk("IDAT", data),
    chunk("IEND", []),
  );
  return btoa(Array.from(png, byte => String.fromCharCode(byte)).join(""));
};
shrink().then(done, error => done(`failed: ${error}`));
