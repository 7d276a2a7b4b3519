// Reads {schema, cases: [[type, value], ...]} from its input, and prints for each case whether TypeScript takes the value.
// The folder of the package `typescript` is its argument. With {file, cases}, the types are those that the file exports, and it prints
// `?` where TypeScript refuses an object because it has none of the members of a type whose members are all optional, which is advice.
const ts = require(process.argv[2]);
const { schema, file: exporting, cases } = JSON.parse(require("fs").readFileSync(0, "utf8"));

function typeOf(value) {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(typeOf).join(", ")}]`;
  return `{${Object.entries(value).map(([name, inner]) => `${JSON.stringify(name)}: ${typeOf(inner)}`).join("; ")}}`;
}

const head = exporting ? `import type * as File from ${JSON.stringify(exporting)};\n` : `${schema}\nexport {};\n`;
const prefix = exporting ? "File." : "";
const here = exporting ? `${require("path").dirname(exporting)}/drawn-values.ts` : "/drawn.ts";
const start = head.split("\n").length - 1;
const lines = cases.map(([type, value]) => `{ let value: ${typeOf(value)} = null!; const taken: ${prefix}${type} = value; }`);
const text = head + lines.join("\n");
const options = { strict: true, exactOptionalPropertyTypes: true, noEmit: true, target: 99 };
if (exporting)
  Object.assign(options, { module: 99, moduleResolution: 100, allowImportingTsExtensions: true, skipLibCheck: true, types: [] });
const host = ts.createCompilerHost(options);
const others = host.getSourceFile;
host.getSourceFile = (name, ...rest) =>
  name === here ? ts.createSourceFile(name, text, 99, true) : others.call(host, name, ...rest);
const program = ts.createProgram([here], options, host);
const file = program.getSourceFile(here);
const codes = new Map();
const advised = new Set();
const inner = (text) => (typeof text === "string" ? [] : [text.code, ...(text.next ?? []).flatMap(inner)]);
for (const found of [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]) {
  const line = file.getLineAndCharacterOfPosition(found.start).line - start;
  if (line < 0) throw new Error(ts.flattenDiagnosticMessageText(found.messageText, "\n"));
  codes.set(line, [...(codes.get(line) ?? []), found.code]);
  if (exporting && inner(found.messageText).includes(2559)) advised.add(line);
}
// 2559 is advice: all members of the type are optional, and the object has none of them.
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const taken = ([, value], line) => (codes.get(line) ?? []).every((code) => code === 2559 && isObject(value));
console.log(cases.map((one, line) => (taken(one, line) ? "1" : advised.has(line) ? "?" : "0")).join(""));
