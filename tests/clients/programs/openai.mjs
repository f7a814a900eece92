// npm `openai`: streams an answer, then lets the model call a tool, over both of its protocols.
import { createRequire } from "node:module";

const { default: OpenAI } = createRequire(process.env.MODULES)("openai");
const { BASE_URL, REAL_MODEL, SCRIPTED_MODEL, RESULT } = process.env;
const client = new OpenAI({ baseURL: `${BASE_URL}/v1`, apiKey: "none", maxRetries: 0 });
const said = {};
const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
};

async function streams() {
  const messages = [{ role: "user", content: "What is the capital of France?" }];
  const stream = await client.chat.completions.create({
    model: REAL_MODEL,
    messages,
    temperature: 0,
    stream: true,
  });
  const pieces = [];
  for await (const chunk of stream) pieces.push(chunk.choices[0]?.delta?.content ?? "");
  said.pieces = pieces.length;
  said.answer = pieces.join("");
}

async function callsATool() {
  const runner = client.chat.completions.runTools({
    model: SCRIPTED_MODEL,
    stream: true,
    messages: [{ role: "user", content: "What is the weather in Ghent?" }],
    tools: [
      {
        type: "function",
        function: {
          name: "weather",
          parameters,
          parse: JSON.parse,
          function: ({ city }) => (city === "Ghent" ? RESULT : "unknown"),
        },
      },
    ],
  });
  said.called = await runner.finalContent();
}

async function callsAToolOverResponses() {
  const tools = [{ type: "function", name: "weather", parameters, strict: false }];
  const stream = client.responses.stream({
    model: SCRIPTED_MODEL,
    input: "What is the weather in Ghent?",
    tools,
  });
  const first = await stream.finalResponse();
  const call = first.output.find((item) => item.type === "function_call");
  const output = JSON.parse(call.arguments).city === "Ghent" ? RESULT : "unknown";
  const second = await client.responses.create({
    model: SCRIPTED_MODEL,
    previous_response_id: first.id,
    input: [{ type: "function_call_output", call_id: call.call_id, output }],
    tools,
  });
  said.calledOverResponses = second.output_text;
}

const parts = { streams, callsATool, callsAToolOverResponses };
await parts[process.argv[2]]();
console.log(JSON.stringify(said));
