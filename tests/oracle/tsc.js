// Reads {schema, cases: [[type, value], ...]} from its input, and prints for each case whether TypeScript takes the value.
// The folder of the package `typescript` is its argument.
const ts = require(process.argv[2]);
const { schema, cases } = JSON.parse(require("fs").readFileSync(0, "utf8"));

function typeOf(value) {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(typeOf).join(", ")}]`;
  return `{${Object.entries(value).map(([name, inner]) => `${JSON.stringify(name)}: ${typeOf(inner)}`).join("; ")}}`;
}

const head = `${schema}\nexport {};\n`;
const start = head.split("\n").length - 1;
const lines = cases.map(([type, value]) => `{ let value: ${typeOf(value)} = null!; const taken: ${type} = value; }`);
const text = head + lines.join("\n");
const options = { strict: true, exactOptionalPropertyTypes: true, noEmit: true, target: 99 };
const host = ts.createCompilerHost(options);
const others = host.getSourceFile;
host.getSourceFile = (name, ...rest) =>
  name === "/drawn.ts" ? ts.createSourceFile(name, text, 99, true) : others.call(host, name, ...rest);
const program = ts.createProgram(["/drawn.ts"], options, host);
const file = program.getSourceFile("/drawn.ts");
const codes = new Map();
for (const found of [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]) {
  const line = file.getLineAndCharacterOfPosition(found.start).line - start;
  if (line < 0) throw new Error(ts.flattenDiagnosticMessageText(found.messageText, "\n"));
  codes.set(line, [...(codes.get(line) ?? []), found.code]);
}
// 2559 is advice: all members of the type are optional, and the object has none of them.
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const taken = ([, value], line) => (codes.get(line) ?? []).every((code) => code === 2559 && isObject(value));
console.log(cases.map((one, line) => (taken(one, line) ? "1" : "0")).join(""));
