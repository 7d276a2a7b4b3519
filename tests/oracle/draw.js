// Draws values of types that a file exports, as TypeScript understands them: `node draw.js TYPESCRIPT FILE SEED TYPES VALUES`.
// Prints {cases: [[type, value], ...], loose: [member, ...]}; `loose` may be undefined, which JSON has no value for.
const ts = require(process.argv[2]);
const [path, seed, types, values] = [process.argv[3], ...process.argv.slice(4).map(Number)];
let state = seed >>> 0;
function random() { // mulberry32
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const chosen = (list) => list[Math.floor(random() * list.length)];
const options = { strict: true, exactOptionalPropertyTypes: true, noEmit: true, target: 99, module: 99, moduleResolution: 100,
  allowImportingTsExtensions: true, skipLibCheck: true, types: [] };
const program = ts.createProgram([path], options);
const checker = program.getTypeChecker();
const F = ts.TypeFlags;
const NONE = Symbol("absent");
const loose = new Set();
class Undrawable extends Error {}
const ANYTHING = [null, true, 0, 1.5, "x", [], {}, [1, "a"], { a: { b: null } }];

function draw(type, depth) {
  if (depth > 9) throw new Undrawable("deep");
  const flags = type.flags;
  if (flags & (F.Any | F.Unknown)) return chosen(ANYTHING);
  if (flags & (F.Undefined | F.Void)) return NONE;
  if (flags & F.Null) return null;
  if (flags & F.StringLiteral || flags & F.NumberLiteral) return type.value;
  if (flags & F.BooleanLiteral) return type.intrinsicName === "true";
  if (flags & F.Boolean) return random() < 0.5;
  if (type.isUnion()) return either(type.types, depth);
  if (flags & F.String) return chosen(["", "a", "1", "é\n", "b-1"]);
  if (flags & F.Number) return chosen([0, 1, -2.5, 7, 1e21]);
  if (flags & F.TemplateLiteral) return type.texts.map((t, i) => t + (i < type.types.length ? draw(type.types[i], depth + 1) : "")).join("");
  if (flags & F.NonPrimitive) return {};
  if (type.isIntersection()) {
    const plain = type.types.find((t) => t.flags & (F.String | F.Number | F.StringLiteral | F.NumberLiteral));
    if (plain) return draw(plain, depth);
  }
  if (flags & (F.Object | F.Intersection)) return object(type, depth);
  throw new Undrawable(checker.typeToString(type));
}
function either(list, depth) {
  const rest = [...list];
  while (rest.length) {
    const [one] = rest.splice(Math.floor(random() * rest.length), 1);
    try { return draw(one, depth + (depth > 5 ? 1 : 0)); } catch (e) { if (!(e instanceof Undrawable)) throw e; }
  }
  throw new Undrawable("union");
}
function object(type, depth) {
  if (checker.isTupleType(type)) return tuple(type, depth);
  if (checker.isArrayType(type)) {
    const item = checker.getTypeArguments(type)[0];
    try { return Array.from({ length: depth > 4 ? 0 : Math.floor(random() * 3) }, () => some(item, depth + 1)); } catch (e) { if (e instanceof Undrawable) return []; throw e; }
  }
  if (type.getCallSignatures().length || type.getConstructSignatures().length) throw new Undrawable("function");
  const base = type.symbol && type.symbol.declarations && type.symbol.declarations[0];
  if (type.isClass && type.isClass() || base && /lib\..*\.d\.ts$/.test(base.getSourceFile().fileName)
      && !["Record", "Partial", "Pick", "Omit", "Required", "Readonly"].includes(type.aliasSymbol && type.aliasSymbol.name)
      && !(type.objectFlags & ts.ObjectFlags.Mapped)) throw new Undrawable(checker.typeToString(type));
  const out = {};
  for (const property of checker.getPropertiesOfType(type)) {
    const optional = property.flags & ts.SymbolFlags.Optional;
    if (property.escapedName.startsWith("__@")) { if (optional) continue; throw new Undrawable("symbol"); }
    if (optional && random() < (depth > 2 ? 0.85 : 0.5)) continue;
    let value;
    try { value = draw(checker.getTypeOfSymbol(property), depth + 1); } catch (e) {
      if (e instanceof Undrawable && optional) continue;
      throw e;
    }
    if (!optional) {
      if (checker.typeToString(checker.getTypeOfSymbol(property)).includes("undefined")) loose.add(property.name);
      for (let again = 0; value === NONE && again < 9; again++) value = draw(checker.getTypeOfSymbol(property), depth + 1);
      if (value === NONE) throw new Undrawable("undefined");
    }
    if (value !== NONE) Object.defineProperty(out, property.name, { value, enumerable: true, writable: true, configurable: true });
  }
  for (const info of checker.getIndexInfosOfType(type)) {
    if (info.keyType.flags & F.ESSymbol) continue;
    if (depth > 4 || random() < 0.4) continue;
    const key = info.keyType.flags & F.Number ? "3" : info.keyType.flags & F.TemplateLiteral ? draw(info.keyType, depth) : chosen(["p", "x-y", "Größe"]);
    if (Object.hasOwn(out, key) || checker.getPropertyOfType(type, key)) continue;
    try { const v = draw(info.type, depth + 1); if (v !== NONE) out[key] = v; } catch (e) { if (!(e instanceof Undrawable)) throw e; }
  }
  return out;
}
function some(type, depth) {
  const value = draw(type, depth);
  if (value === NONE) throw new Undrawable("undefined in a list");
  return value;
}
function tuple(type, depth) {
  const out = [];
  const args = checker.getTypeArguments(type);
  const flags = type.target.elementFlags;
  for (let i = 0; i < args.length; i++) {
    if (flags[i] & ts.ElementFlags.Required) out.push(some(args[i], depth + 1));
    else if (flags[i] & ts.ElementFlags.Optional) { if (random() < 0.5) break; out.push(some(args[i], depth + 1)); }
    else for (let n = Math.floor(random() * 3); n > 0; n--) out.push(some(args[i], depth + 1));
  }
  return out;
}
const file = program.getSourceFile(path);
const symbol = checker.getSymbolAtLocation(file);
const cases = [];
const names = [];
for (let one of checker.getExportsOfModule(symbol)) { const exported = one.name;
  if (one.flags & ts.SymbolFlags.Alias) one = checker.getAliasedSymbol(one);
  if (!(one.flags & (ts.SymbolFlags.Interface | ts.SymbolFlags.TypeAlias | ts.SymbolFlags.Enum))) continue;
  const type = checker.getDeclaredTypeOfSymbol(one);
  const d = (one.declarations || []).find((d) => d.typeParameters);
  if (d) continue;
  names.push([exported, type]);
}
let picked = names;
if (names.length > types) { picked = []; const rest = [...names]; while (picked.length < types) picked.push(...rest.splice(Math.floor(random() * rest.length), 1)); }
for (const [name, type] of picked) {
  for (let i = 0, tries = 0; i < values && tries < 5 * values; tries++) {
    try { const v = draw(type, 0); if (v !== NONE && JSON.stringify(v).length < 4000) { cases.push([name, v]); i++; } } catch (e) { if (!(e instanceof Undrawable)) throw e; }
  }
}
console.log(JSON.stringify({ cases, loose: [...loose] }));
