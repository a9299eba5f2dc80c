import type { EngineFault, Node } from './engine.js'
import { LIMITS } from './engine.js'
import type { ExpressionProblem } from './expression.js'
import type { FunctionTable } from './function-table.js'
import { invisibleAt, oldTemplateHint } from './hints.js'
import { typeLabel } from './signature.js'

export function problem(
  code: string,
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
    ';': '; an expression has no statements'
  }
  return `${found} is unexpected here${advice[found] ?? ''}`
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
