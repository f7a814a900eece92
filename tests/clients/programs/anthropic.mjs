// npm `@anthropic-ai/sdk`: streams an answer, then lets the model call a tool.
import { createRequire } from "node:module";

const { default: Anthropic } = createRequire(process.env.MODULES)("@anthropic-ai/sdk");
const { BASE_URL, REAL_MODEL, SCRIPTED_MODEL, RESULT } = process.env;
const client = new Anthropic({ baseURL: BASE_URL, apiKey: "none", maxRetries: 0 });
const said = {};

async function streams() {
  const pieces = [];
  const stream = client.messages.stream({
    model: REAL_MODEL,
    max_tokens: 64,
    messages: [{ role: "user", content: "What is the capital of France?" }],
  });
  stream.on("text", (piece) => pieces.push(piece));
  await stream.finalMessage();
  said.pieces = pieces.length;
  said.answer = pieces.join("");
}

async function callsATool() {
  const input_schema = {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
  };
  const tools = [{ name: "weather", input_schema }];
  const messages = [{ role: "user", content: "What is the weather in Ghent?" }];
  const asked = { model: SCRIPTED_MODEL, max_tokens: 500, messages, tools };
  const first = await client.messages.stream(asked).finalMessage();
  const call = first.content.find((block) => block.type === "tool_use");
  const content = call.input.city === "Ghent" ? RESULT : "unknown";
  const result = { type: "tool_result", tool_use_id: call.id, content };
  messages.push({ role: "assistant", content: first.content });
  messages.push({ role: "user", content: [result] });
  const second = await client.messages.stream(asked).finalMessage();
  said.called = second.content.map((block) => block.text).join("");
}

await { streams, callsATool }[process.argv[2]]();
console.log(JSON.stringify(said));
