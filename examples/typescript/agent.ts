// An agent with a budget, without any library. It works in both dialects: only the header of the key differs.
//
//     export BUDGET_URL=… BUDGET_API_KEY=… BUDGET_KEY_HEADER=…     # as `make run` prints them
//     node examples/typescript/agent.ts                            # Node 22.18 or newer; before that: npx tsx …

const { BUDGET_URL, BUDGET_API_KEY, BUDGET_KEY_HEADER } = process.env as Record<string, string>;

type Amount = { unit: "USD_MICROCENTS"; amount: number };
type Reply = {
  status: number;
  body: { reservation_id: string; reserved: Amount; charged: Amount; released: Amount; error: string; message: string };
};

const microcents = (amount: number): Amount => ({ unit: "USD_MICROCENTS", amount });

/** Sends a request. After a timeout, a broken connection or a 5xx its outcome is unknown, so the same goes out again: the idempotency
 * key in it makes sure that it has one effect. */
async function post(path: string, body: object): Promise<Reply> {
  for (let attempt = 1; ; attempt++) {
    try {
      const response = await fetch(`${BUDGET_URL}/v1/${path}`, {
        method: "POST",
        headers: { [BUDGET_KEY_HEADER]: BUDGET_API_KEY, "Content-Type": "application/json" },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(10_000),
      });
      const reply = { status: response.status, body: (await response.json()) as Reply["body"] };
      if (reply.status < 500) return reply;
    } catch (lost) {
      if (attempt === 5) throw lost;
    }
    if (attempt === 5) throw new Error("the service is out of reach");
    await new Promise((wait) => setTimeout(wait, 200 * 2 ** attempt));
  }
}

/** The body of a success; anything else ends the agent. */
async function sent(path: string, body: object): Promise<Reply["body"]> {
  const reply = await post(path, body);
  if (reply.status !== 200) throw new Error(`${reply.body.error}: ${reply.body.message}`);
  return reply.body;
}

const reservation = (estimate: number) => ({
  idempotency_key: crypto.randomUUID(),
  subject: { tenant: "demo", app: "chat", agent: "helper" },
  action: { kind: "llm.completion", name: "any-model" },
  estimate: microcents(estimate),
  ttl_ms: 10_000,
});

const commit = (actual: number) => ({ idempotency_key: crypto.randomUUID(), actual: microcents(actual) });

/** Half a cent for a step that streams. */
async function streamingStep(): Promise<void> {
  const request = reservation(500_000);
  const made = await sent("reservations", request);
  console.log(`reserved ${made.reserved.amount}`);
  const again = await sent("reservations", request);
  if (again.reservation_id !== made.reservation_id) throw new Error("two reservations");
  console.log("the same request again: the same reservation");
  // The hold lasts ten seconds. A stream extends it as long as it needs.
  const path = `reservations/${made.reservation_id}`;
  for (let chunk = 0; chunk < 3; chunk++) {
    await sent(`${path}/extend`, { idempotency_key: crypto.randomUUID(), extend_by_ms: 10_000 });
  }
  console.log("extended 3 times");
  // It was cheaper than estimated: the rest returns.
  const done = await sent(`${path}/commit`, commit(320_000));
  console.log(`committed ${done.charged.amount}; ${done.released.amount} returned`);
}

/** What the budget has left pays for the overage. The response may be lost here too. */
async function dearerStep(): Promise<void> {
  const made = await sent("reservations", reservation(500_000));
  const request = commit(650_000);
  const done = await sent(`reservations/${made.reservation_id}/commit`, request);
  const again = await sent(`reservations/${made.reservation_id}/commit`, request);
  if (again.charged.amount !== done.charged.amount) throw new Error("two charges");
  console.log(`a commit above its hold: ${done.charged.amount} charged`);
}

/** Nothing is held, and nothing is done: a denial is final. */
async function deniedStep(): Promise<void> {
  const denied = await post("reservations", reservation(60_000_000_000));
  if (denied.status !== 409) throw new Error("there is not so much");
  console.log(`denied: ${denied.body.error}; the agent stops`);
}

await streamingStep();
await dearerStep();
await deniedStep();
export {};
