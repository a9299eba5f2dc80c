import type { Flow } from '../flow/flow.js'
import {
  type Compiled,
  EvaluationError,
  type Expression,
  type ExpressionProblem,
  type MisreadLiteral,
  type SecretName,
  type Template
} from './expression.js'
import { problem } from './problems.js'
import { Room, textOf } from './text.js'
import { MAX_TEXT } from './values.js'

/** Problems of one text that are looked for. */
const MAX_PROBLEMS = 20
/** Parts of one text; more is generated text that belongs into a body from elsewhere. */
const MAX_PARTS = 1_000

/** A stretch of the source: text as it stands, or the expression between `${` and `}`. */
interface Part {
  readonly expression: boolean
  readonly text: string
  /** Offset of `text` in the source. */
  readonly start: number
}

/**
 * Compiles a string with `${…}` parts. `compile` compiles one expression; its offsets are moved into the string.
 * A `$` that no `{` follows is text.
 */
export function compileTemplate(source: string, compile: (source: string) => Compiled<Expression>): Compiled<Template> {
  const parts = split(source)
  if (!Array.isArray(parts)) return { ok: false, problems: [parts] }
  const problems: ExpressionProblem[] = []
  const variables = new Set<string>()
  const secrets: SecretName[] = []
  const literals: MisreadLiteral[] = []
  const pieces: (string | Expression)[] = []
  let failed = false
  for (const part of parts) {
    // One wrong text must not cost seconds; the author mends these first.
    if (problems.length >= MAX_PROBLEMS) break
    if (!part.expression) {
      pieces.push(part.text)
      continue
    }
    const compiled = compilePart(part, compile)
    if (compiled.ok) {
      problems.push(...compiled.warnings)
      secrets.push(...(compiled.secrets ?? []))
      literals.push(...(compiled.literals ?? []))
      pieces.push(compiled.value)
      for (const name of compiled.value.variables) variables.add(name)
    } else {
      problems.push(...compiled.problems)
      failed = true
    }
  }
  if (failed) return { ok: false, problems }
  return { ok: true, value: new CompiledTemplate(source, pieces, variables), warnings: problems, secrets, literals }
}

/** The parts of a template that are text as it stands; none of one that cannot be read. */
export function fixedTextsOf(source: string): readonly string[] {
  const parts = split(source)
  return Array.isArray(parts) ? parts.filter(({ expression }) => !expression).map(({ text }) => text) : []
}

/** Compiles one part; a part that is wrong as it stands but right with `\"` read as `"` is taken so. */
function compilePart({ text, start }: Part, compile: (source: string) => Compiled<Expression>): Compiled<Expression> {
  const compiled = compile(text)
  if (!compiled.ok && text.includes('\\"') && compiled.problems.some(({ code }) => code === 'EXPRESSION_SYNTAX')) {
    const plain = compile(text.replaceAll('\\"', '"'))
    if (plain.ok || !plain.problems.some(({ code }) => code === 'EXPRESSION_SYNTAX')) {
      return moved(plain, (offset) => start + escapedOffset(text, offset))
    }
  }
  return moved(withLiteralHint(compiled, text), (offset) => start + offset)
}

/** `${HOME}` may be meant for another program. */
function withLiteralHint(compiled: Compiled<Expression>, text: string): Compiled<Expression> {
  if (compiled.ok || !/^\s*[A-Za-z_]\w*\s*$/.test(text)) return compiled
  const hint = `; for the text \${${text}} itself write \${'\${'}${text}}`
  return { ok: false, problems: compiled.problems.map((one) => ({ ...one, message: `${one.message}${hint}` })) }
}

/** Maps an offset in the unescaped text to the escaped text. */
function escapedOffset(text: string, offset: number): number {
  let at = 0
  for (let plain = 0; plain < offset && at < text.length; plain++) at += text.startsWith('\\"', at) ? 2 : 1
  return at
}

function moved<T>(compiled: Compiled<T>, move: (offset: number) => number): Compiled<T> {
  const shift = <P extends { readonly start: number; readonly end: number }>(one: P): P => {
    return { ...one, start: move(one.start), end: move(one.end) }
  }
  return compiled.ok
    ? { ...compiled, warnings: compiled.warnings.map(shift), literals: (compiled.literals ?? []).map(shift) }
    : { ok: false, problems: compiled.problems.map(shift) }
}

/** The parts of a string, or what keeps it from being split. */
function split(source: string): Part[] | ExpressionProblem {
  const parts: Part[] = []
  let from = 0
  for (;;) {
    const open = source.indexOf('${', from)
    const end = open === -1 ? source.length : open
    if (end > from) parts.push({ expression: false, text: source.slice(from, end), start: from })
    if (open === -1) return parts
    const close = closingBrace(source, open + 2)
    if (close === undefined) {
      const message = "${ has no closing }; for the text ${ itself write ${'${'}"
      return problem('EXPRESSION_SYNTAX', message, { start: open, end: open + 2 })
    }
    if (parts.length >= MAX_PARTS) {
      return problem('EXPRESSION_LIMIT', `a text may have at most ${MAX_PARTS} parts`, { start: open, end: open + 2 })
    }
    parts.push({ expression: true, text: source.slice(open + 2, close), start: open + 2 })
    from = close + 1
  }
}

/** The `}` that closes the expression at `start`: braces nest, and those in strings and comments do not count. */
function closingBrace(source: string, start: number): number | undefined {
  let depth = 0
  for (let i = start; i < source.length; i++) {
    const character = source[i]
    if (character === '{') depth++
    else if (character === '}') {
      if (depth === 0) return i
      depth--
    } else if (character === '"' || character === "'") {
      const end = stringEnd(source, i)
      if (end === undefined) return undefined
      i = end
    } else if (character === '/' && source[i + 1] === '/') {
      while (i + 1 < source.length && source[i + 1] !== '\n') i++
    }
  }
  return undefined
}

/**
 * Last character of the string that begins at `start`; undefined when it does not end.
 * The parser takes no quote after a backslash for the end, in raw strings either.
 */
function stringEnd(source: string, start: number): number | undefined {
  const quote = source[start] as string
  const delimiter = source.startsWith(quote.repeat(3), start) ? quote.repeat(3) : quote
  // The escaped quotes of a string inside a quoted YAML string: \" begins and ends the string.
  const escaped = source[start - 1] === '\\'
  for (let i = start + delimiter.length; i < source.length; i++) {
    if (escaped && source.startsWith(`\\${quote}`, i)) return i + 1
    if (source[i] === '\\') i++
    else if (source.startsWith(delimiter, i)) return i + delimiter.length - 1
  }
  return undefined
}

const TOO_LONG = new EvaluationError('failed', `a text would be longer than ${MAX_TEXT} characters`)

const asItIs: (text: string, variables: ReadonlySet<string>) => string = (text) => text

class CompiledTemplate implements Template {
  readonly source: string
  readonly constant: string | undefined
  readonly type: string
  readonly variables: ReadonlySet<string>
  readonly #pieces: readonly (string | Expression)[]

  constructor(source: string, pieces: readonly (string | Expression)[], variables: ReadonlySet<string>) {
    this.source = source
    this.variables = variables
    this.#pieces = pieces
    const [only] = pieces
    this.type = pieces.length === 1 && typeof only === 'object' ? only.type : 'string'
    this.constant = pieces.every((piece) => typeof piece === 'string') ? pieces.join('') : undefined
  }

  text(flow: Flow, shown = asItIs): string {
    if (this.constant !== undefined) return this.constant
    let text = ''
    const room = new Room()
    for (const piece of this.#pieces) {
      text += typeof piece === 'string' ? piece : shown(textOf(piece.evaluate(flow), room), piece.variables)
      if (text.length > MAX_TEXT) throw TOO_LONG
    }
    return text
  }

  value(flow: Flow): unknown {
    const [only] = this.#pieces
    return this.#pieces.length === 1 && typeof only === 'object' ? only.evaluate(flow) : this.text(flow)
  }
}
