import { defineErrors } from '../lib/errors.js'
import { suggest } from '../lib/suggest.js'
import { type EngineFault, LIMITS, type Node } from './cel-parser.js'
import type { ExpressionProblem } from './expression.js'
import { type FunctionTable, typeLabel } from './signatures.js'

/** Codes of problems in expressions and templates. */
export const expressionErrors = defineErrors({
  EXPRESSION_SYNTAX: {
    text: 'The expression is no valid CEL.',
    help: 'Correct it at the place that the message names.'
  },
  EXPRESSION_TYPE: {
    text: 'The types of the expression do not fit together.',
    help: 'Convert a value, for example with int() or string(), or use another function.'
  },
  EXPRESSION_UNKNOWN: {
    text: 'The expression names a variable or a function that does not exist.',
    help: 'Use a name of the reference of expressions; the message suggests one.'
  },
  EXPRESSION_PHASE: {
    text: 'The variable or function does not exist in this phase.',
    help: 'Move the rule to a phase that has it, or keep the value with set-vars in an earlier phase.'
  },
  EXPRESSION_REGEX: {
    text: 'The pattern is no regular expression of RE2 syntax.',
    help: 'Correct it; RE2 has neither lookaround nor backreferences.'
  },
  EXPRESSION_FAILS: {
    text: 'A part of the expression fails for every request, because of what is written in it.',
    help: 'Correct the constant that the message names.'
  },
  EXPRESSION_LIMIT: {
    text: 'The expression is too long, too deep or has too many parts.',
    help: 'Divide it into several expressions or rules.'
  },
  DATA_UNAVAILABLE: {
    text: 'The variable is always empty here, because its data is not available.',
    help: 'Leave the variable out; for places and networks name a database with geoip.database.'
  }
})

export type ExpressionCode = keyof typeof expressionErrors

/** Methods of other languages, and what CEL calls them. */
const FOREIGN_METHODS: Readonly<Record<string, string>> = {
  includes: 'contains(…)',
  has: "'key' in map",
  get: "map['key']",
  length: 'size()',
  len: 'size()',
  count: 'size()',
  starts_with: 'startsWith(…)',
  hasPrefix: 'startsWith(…)',
  ends_with: 'endsWith(…)',
  hasSuffix: 'endsWith(…)',
  toLowerCase: 'lowerAscii()',
  toLower: 'lowerAscii()',
  toUpperCase: 'upperAscii()',
  toUpper: 'upperAscii()',
  test: 'matches(…)',
  match: 'matches(…)',
  any: 'exists(x, …)',
  some: 'exists(x, …)',
  every: 'all(x, …)',
  find: 'filter(x, …)[0]',
  toString: 'string(…)'
}

/** Functions that are called otherwise elsewhere: as methods of a list, or under another name. */
const FOREIGN_FUNCTIONS: Readonly<Record<string, string>> = {
  sort: 'list.sort() or list.sortBy(x, …)',
  sorted: 'list.sort() or list.sortBy(x, …)',
  sortBy: 'list.sortBy(x, …)',
  orderBy: 'list.sortBy(x, …)',
  'lists.sort': 'list.sort() or list.sortBy(x, …)'
}

/** Methods with a variable and an expression over it, by names that have another meaning here or none. */
const FOREIGN_MACROS: Readonly<Record<string, string>> = {
  sort: 'sortBy(x, …)',
  sorted: 'sortBy(x, …)',
  sort_by: 'sortBy(x, …)',
  orderBy: 'sortBy(x, …)',
  order_by: 'sortBy(x, …)'
}

/** `; did you mean …?` for a function that does not exist, or nothing. */
export function functionHint(name: string, known: Iterable<string>): string {
  if (Object.hasOwn(FOREIGN_FUNCTIONS, name)) return `; did you mean ${FOREIGN_FUNCTIONS[name]}?`
  return methodHint(name, known)
}

/** Returns the macro that a foreign method name stands for; undefined for other names. */
export function macroMeant(name: string): string | undefined {
  return Object.hasOwn(FOREIGN_MACROS, name) ? FOREIGN_MACROS[name] : undefined
}

/** `; …` that names what was probably meant, or nothing. */
export function methodHint(name: string, known: Iterable<string>): string {
  if (Object.hasOwn(FOREIGN_METHODS, name)) return `; write ${FOREIGN_METHODS[name]}`
  const near = suggest(name, known)
  return near === undefined ? '' : `; did you mean ${near}(…)?`
}

/** The documented path that was probably meant: the nearest, else one that ends the same. */
function nearestPath(path: string, paths: Iterable<string>): string | undefined {
  const all = [...paths]
  const root = path.slice(0, path.indexOf('.') + 1)
  const siblings = root === '' ? [] : all.filter((one) => one.startsWith(root))
  const last = path.slice(path.lastIndexOf('.') + 1)
  const endings = (among: readonly string[]) =>
    among.filter((one) => one.endsWith(`.${last}`)).sort((a, b) => a.length - b.length)[0]
  const near = suggest(path, siblings) ?? endings(siblings) ?? endings(all) ?? suggest(path, all)
  if (near !== undefined) return near
  const ending = suggest(last, new Set(all.map((one) => one.slice(one.lastIndexOf('.') + 1))))
  return all.find((one) => one.endsWith(`.${ending}`))
}

/** Result names of unsupported actions, for which no other action is suggested. */
const UNPUBLISHED = new Set(['ai_gateway'])

/** `; did you mean x?`, or nothing. */
export function pathHint(path: string, paths: Iterable<string>): string {
  const [root = '', , action = ''] = path.split('.')
  if (root === 'actions' && UNPUBLISHED.has(action))
    return `: the action ${action.replaceAll('_', '-')} is not supported`
  const last = path.slice(path.lastIndexOf('.') + 1)
  if (/^(?:length|len|count)$/.test(last)) return `; write ${path.slice(0, -last.length - 1)}.size()`
  const near = /^(?:ip|(?:client|remote|source|src|peer)_?(?:ip|addr|address))$/i.test(last)
    ? ADDRESS
    : nearestPath(path, paths)
  return near === undefined ? '' : `; did you mean ${near}?`
}

/** Other languages call it by names that are near to those of other variables. */
const ADDRESS = 'conn.client_ip'

const OLD_TEMPLATE: readonly (readonly [RegExp, string])[] = [
  [/^\s*\.(?:ngrok|service)\.geo\.(\w+)/, 'conn.geo.'],
  [/^\s*\.(?:ngrok|service)\.([\w.]+)/, 'conn.']
]

/** Returns advice for replacing `${.ngrok.…}` or `{{ … }}`; undefined if the source is not a legacy template. */
function oldTemplateHint(source: string): string | undefined {
  for (const [pattern, prefix] of OLD_TEMPLATE) {
    const match = pattern.exec(source)
    if (match !== null) return `templates that begin with a dot are not supported; write ${prefix}${match[1]}`
  }
  if (source.includes('{{')) return `templates with {{ }} are not supported; write \${…} with an expression`
  return undefined
}

/** Characters that look like a blank, or like nothing, and that the language does not know; text copied from elsewhere has them. */
const INVISIBLE = /[\u0085\u00a0\u00ad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u2066-\u2069\u3000\ufeff]/
const INVISIBLE_NAMES: Readonly<Record<string, string>> = {
  '\u00a0': 'no-break space',
  '\u00ad': 'soft hyphen',
  '\u200b': 'zero width space',
  '\u200c': 'zero width non-joiner',
  '\u200d': 'zero width joiner',
  '\u200e': 'left-to-right mark',
  '\u200f': 'right-to-left mark',
  '\u2028': 'line separator',
  '\u2029': 'paragraph separator',
  '\u202f': 'narrow no-break space',
  '\u2060': 'word joiner',
  '\u3000': 'ideographic space',
  '\ufeff': 'byte order mark'
}

/** Names the character at `offset` when it is an invisible one; undefined for any other. */
function invisibleAt(source: string, offset: number): string | undefined {
  const character = source[offset]
  if (character === undefined || !INVISIBLE.test(character)) return undefined
  const code = `U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`
  const name = INVISIBLE_NAMES[character] ?? 'a blank of Unicode'
  return `there is an invisible character, ${code} (${name}), at character ${offset + 1}; write an ordinary space or nothing`
}

export function problem(
  code: ExpressionCode,
  message: string,
  at: { readonly start: number; readonly end: number },
  severity: 'error' | 'warning' = 'error'
): ExpressionProblem {
  return { severity, code, message, start: at.start, end: Math.max(at.end, at.start) }
}

const SYNTAX: Readonly<Record<string, string>> = {
  newline_in_string: 'a text in single quotes ends on its line; use three quotes for more lines',
  unterminated_string: 'the text has no closing quote',
  unterminated_triple_quoted_string: 'the text has no closing quotes',
  invalid_escape_sequence: 'this escape is unknown; write \\\\ for a backslash or begin the text with r',
  invalid_hex_escape: 'an escape \\x needs two hexadecimal digits',
  invalid_octal_escape: 'an octal escape needs three digits',
  octal_escape_out_of_range: 'an octal escape goes up to \\377',
  invalid_unicode_escape: 'an escape \\u needs four hexadecimal digits, \\U eight',
  invalid_unicode_surrogate: 'an escape names half of a surrogate pair',
  bytes_unicode_escape: 'bytes cannot hold \\u; write the bytes with \\x',
  invalid_integer: 'this is not an integer',
  invalid_hex_integer: 'this is not a hexadecimal integer',
  invalid_number: 'this is not a number',
  invalid_exponent: 'an exponent needs digits',
  numeric_overflow: 'this integer does not fit into 64 bits',
  invalid_macro_argument: 'the first argument must be the name of a variable'
}

/** A parser's fault in our words. */
export function syntaxProblem(fault: EngineFault, source: string): ExpressionProblem {
  if (fault.code === 'limit_exceeded') {
    const message = `the expression is too large: at most ${LIMITS.maxAstNodes} parts, ${LIMITS.maxDepth} levels deep, ${LIMITS.maxListElements} elements in a list`
    return problem('EXPRESSION_LIMIT', message, fault)
  }
  const known = SYNTAX[fault.code]
  if (known !== undefined) return problem('EXPRESSION_SYNTAX', known, fault)
  const found = source.slice(fault.start, fault.end)
  if (fault.code === 'reserved_identifier') {
    return problem('EXPRESSION_SYNTAX', `${found} is a reserved word`, fault)
  }
  return problem('EXPRESSION_SYNTAX', unexpected(source, fault.start, found), fault)
}

function unexpected(source: string, start: number, found: string): string {
  const old = oldTemplateHint(source)
  if (old !== undefined) return old
  if (source.startsWith('${', start) || (source[start] === '{' && source[start - 1] === '$')) {
    return `\${…} belongs into the texts of a config; an expression writes vars.name as it is`
  }
  const invisible = invisibleAt(source, start)
  if (invisible !== undefined) return invisible
  if (source.trim() === '') return 'the expression is empty'
  if (found.trim() === '' || start >= source.length) return 'the expression ends too early'
  const advice: Record<string, string> = {
    '=': '; compare with ==',
    '&': '; write &&',
    '|': '; write ||',
    and: '; write &&',
    or: '; write ||',
    ';': '; an expression has no statements'
  }
  if (found === '>' && source[start - 1] === '<') return '<> is unexpected here; write !='
  if (/\bnot\s+$/i.test(source.slice(Math.max(0, start - 8), start))) return 'not is no operator; write !(…)'
  return `${found} is unexpected here${advice[found.toLowerCase()] ?? ''}`
}

/** A checker's fault in our words. */
export function typeProblem(fault: EngineFault, functions: FunctionTable): ExpressionProblem {
  return problem('EXPRESSION_TYPE', typeMessage(fault, functions), fault.node ?? fault)
}

function typeMessage({ code, node }: EngineFault, functions: FunctionTable): string {
  switch (code) {
    case 'no_such_overload':
      return node === undefined ? 'this operator is not defined for its operand' : unaryMessage(node)
    case 'no_matching_overload':
      return node === undefined ? 'this function does not take these arguments' : callMessage(node, functions)
    case 'invalid_logical_operand':
      return `${node?.op ?? 'a logical operator'} takes bool on both sides`
    case 'invalid_condition_type':
      return 'this condition must be a bool'
    case 'invalid_comprehension_range':
      return 'only a list or a map can be walked'
    case 'invalid_index_type':
      return 'a list is indexed by an int'
    case 'cannot_index_type':
    case 'no_such_key':
      return 'this value has no members'
    case 'invalid_macro_argument':
      return 'the first argument must be the name of a variable'
    default:
      return 'the types of this expression do not fit together'
  }
}

function unaryMessage(node: Node): string {
  const { checkedType } = node.args as Node
  return `${node.op[0]} is not defined for ${checkedType === undefined ? 'this value' : typeLabel(checkedType)}`
}

function callMessage(node: Node, functions: FunctionTable): string {
  const isMethod = node.op === 'rcall'
  const flat = (node.args as [string])[0]
  const forms = functions.forms(isMethod ? 'method' : 'function', flat)
  const name = flat.replaceAll('__', '.')
  if (forms === '') return `${name}() does not take these arguments`
  return `${name}() does not take these arguments; it is ${forms}${isMethod ? listHint(name, forms, node) : ''}`
}

/** A list where a method takes a text: header fields and query parameters are lists of their values. */
function listHint(name: string, forms: string, node: Node): string {
  const { checkedType } = (node.args as [string, Node])[1]
  if (checkedType === undefined || !typeLabel(checkedType).startsWith('list')) return ''
  return forms.includes(`string.${name}(`) ? `; this is a list: did you mean [0].${name}(…)?` : ''
}
