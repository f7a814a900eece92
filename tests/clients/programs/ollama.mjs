// npm `ollama`: streams an answer, then lets the model call a tool.
import { createRequire } from "node:module";

const { Ollama } = createRequire(process.env.MODULES)("ollama");
const { BASE_URL, REAL_MODEL, SCRIPTED_MODEL, RESULT } = process.env;
const client = new Ollama({ host: BASE_URL });
const said = {};

async function streams() {
  const messages = [{ role: "user", content: "What is the capital of France?" }];
  const options = { temperature: 0 };
  const parts = await client.chat({ model: REAL_MODEL, messages, options, stream: true });
  const pieces = [];
  for await (const part of parts) pieces.push(part.message.content);
  said.pieces = pieces.length;
  said.answer = pieces.join("");
}

async function callsATool() {
  const parameters = {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
  };
  const tools = [
    { type: "function", function: { name: "weather", description: "The weather.", parameters } },
  ];
  const messages = [{ role: "user", content: "What is the weather in Ghent?" }];
  let call;
  for await (const part of await client.chat({
    model: SCRIPTED_MODEL,
    messages,
    tools,
    stream: true,
  })) {
    call ??= part.message.tool_calls?.[0];
  }
  const content = call.function.arguments.city === "Ghent" ? RESULT : "unknown";
  messages.push({ role: "assistant", content: "", tool_calls: [call] });
  messages.push({ role: "tool", tool_name: "weather", content });
  const answer = await client.chat({ model: SCRIPTED_MODEL, messages, tools });
  said.called = answer.message.content;
}

await { streams, callsATool }[process.argv[2]]();
console.log(JSON.stringify(said));
