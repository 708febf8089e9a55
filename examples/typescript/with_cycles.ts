// The published client of the protocol: npm install runcycles. In the dialect `cycles`; its own unit is USD_MICROCENTS.
//
//     export CYCLES_BASE_URL=… CYCLES_API_KEY=… CYCLES_TENANT=demo     # as `make run ARGS='--dialect cycles …'` prints them
//     node with_cycles.ts

import { BudgetExceededError, CyclesClient, CyclesConfig, withCycles } from "runcycles";

const client = new CyclesClient(CyclesConfig.fromEnv());
const about = { client, app: "chat", agent: "helper", actionKind: "llm.completion", actionName: "any-model" };

// Reserves half a cent before the call, extends the hold while it lasts, and commits what the call cost.
const complete = withCycles(
  { ...about, estimate: 500_000, actual: (text: string) => text.length * 1_000 },
  async (prompt: string) => `call the model here with ${prompt}`,
);
console.log(await complete("hello"));

// Does not call where a budget lacks funds.
const tooDear = withCycles({ ...about, estimate: 60_000_000_000 }, async () => "a denied agent does not act");
try {
  console.log(await tooDear());
} catch (denied) {
  if (!(denied instanceof BudgetExceededError)) throw denied;
  console.log("denied: BUDGET_EXCEEDED; the agent stops");
}
