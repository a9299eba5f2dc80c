import { EvaluationError } from '../expression/expression.js'
import { engineValue } from '../expression/values.js'
import type { Flow } from '../flow/flow.js'
import { refusalToWrite, wireValue } from '../flow/headers.js'
import { type Regex, RegexCache } from '../lib/regex.js'
import type { Scope } from './action.js'
import { foreignVariable } from './foreign-variables.js'
import { type NodePath, policyErrors } from './problems.js'

/** Placeholders of examples: `$YOUR_IP`, `<your ip>`, `{your-ip}`, `YOUR_IP`, `...`. */
const PLACEHOLDER = /\$[A-Z_]\w*|<[^<>]+>|\{[^{}]+\}|\bYOUR_\w+|\.\.\.|…/
/** A word in capitals, optionally with a prefix length: `OFFICE_IP`, `MY-NETWORK/24`. */
const CAPITALS = /^[A-Z][A-Z0-9]*(?:[ _-][A-Z0-9]+)*(?:\/\d{1,3})?$/
/** Pattern of a text that is a placeholder as a whole. */
const WHOLE_BLANK = '^(?:\\$\\{?[A-Z_]\\w*\\}?|<[^<>]+>|\\{[^{}]+\\}|YOUR_\\w+|\\.{3,}|…)$'
/** Matches a text that is a placeholder as a whole and not a word that could be the value. */
export const BLANK = new RegExp(WHOLE_BLANK)

/**
 * Returns whether a text that is invalid for its field looks like a placeholder of an example. Such a document is checked with a warning,
 * so that the rest is checked too, and does not run.
 */
export function isPlaceholder(text: string): boolean {
  return PLACEHOLDER.test(text)
}

/** Like `isPlaceholder`, for fields such as addresses and URLs, for which no word in capitals is valid. */
export function isPlaceholderWord(text: string): boolean {
  return isPlaceholder(text) || CAPITALS.test(text.trim())
}

/** Returns whether `text` can only be a placeholder, although the field accepts any text. */
export function isBlank(text: string): boolean {
  return BLANK.test(text.trim())
}

/** Reports a URL that does not match `pattern`. URLs with `${…}` are checked at run time; a policy with a placeholder does not run. */
export function checkUrl(url: string, pattern: RegExp, expected: string, at: NodePath, scope: Scope): void {
  if (pattern.test(url) || url.includes('${')) return
  if (isPlaceholderWord(url)) {
    scope.unavailable(at, `"${url}" is a placeholder: put ${expected} in its place`, policyErrors.PLACEHOLDER)
  } else scope.problem(at, policyErrors.CONFIG_INVALID, `"${url}" is not ${expected}`)
}

/** Maximum number of compiled dynamic patterns cached per place of a policy. */
const KEPT_PATTERNS = 64

/** Compiles an RE2 pattern; one with `${…}` is compiled on use and throws `EvaluationError` if invalid. */
export function compilePattern(from: string, at: NodePath, scope: Scope): (flow: Flow) => Regex {
  const template = scope.template(from, at)
  if (template.constant !== undefined) {
    const regex = scope.regex(template.constant, at)
    return () => regex
  }
  const cache = new RegexCache(KEPT_PATTERNS)
  return (flow) => {
    const compiled = cache.get(template.text(flow))
    if (!compiled.ok) throw new EvaluationError('failed', `from is no pattern after interpolation: ${compiled.message}`)
    return compiled.regex
  }
}

/** Compiled header fields of a config. Names are in lower case. */
interface HeaderWriting {
  readonly names: readonly string[]
  /**
   * Returns a flat list of names and values: one field per name, but one per cookie for a list of cookies. Throws `EvaluationError` if a
   * value is invalid in a header.
   */
  fields(flow: Flow): string[]
}

/** Compiles name → value pairs; `reserved` are names that this action rejects in addition to those forbidden for all policies. */
export function compileHeaders(
  headers: Readonly<Record<string, string>>,
  at: NodePath,
  scope: Scope,
  reserved: Readonly<Record<string, string>> = {}
): HeaderWriting {
  const names: string[] = []
  const values: ((flow: Flow) => string | readonly string[])[] = []
  for (const [written, source] of Object.entries(headers)) {
    const name = written.toLowerCase()
    const refusal = Object.hasOwn(reserved, name) ? reserved[name] : refusalToWrite(written)
    if (refusal !== undefined) scope.problem([...at, written], policyErrors.CONFIG_INVALID, refusal)
    if (names.includes(name)) {
      scope.problem(
        [...at, written],
        policyErrors.CONFIG_INVALID,
        `"${name}" stands here twice; the case of a name does not count`
      )
    }
    names.push(name)
    values.push(compileHeaderValue(name, source, [...at, written], scope))
  }
  return {
    names,
    fields(flow) {
      const fields: string[] = []
      for (const [i, name] of names.entries()) {
        const value = (values[i] as (flow: Flow) => string | readonly string[])(flow)
        if (typeof value === 'string') fields.push(name, value)
        else for (const one of value) fields.push(name, one)
      }
      return fields
    }
  }
}

function compileHeaderValue(
  name: string,
  source: string,
  at: NodePath,
  scope: Scope
): (flow: Flow) => string | readonly string[] {
  const template = scope.template(source, at)
  const foreign = foreignVariable(source)
  if (foreign !== undefined) {
    const message = `"${foreign.written}" is not a variable of this language, so the field has this text; write ${foreign.right}`
    scope.warn(at, policyErrors.PLACEHOLDER, message)
  }
  const { expressions } = scope.services
  // Cookies joined by a comma could not be separated again (RFC 6265 3).
  if (template.constant === undefined && name === 'set-cookie') {
    return (flow) => {
      const value = template.value(flow)
      const cookies = Array.isArray(value) ? value : [value]
      return cookies.map((cookie) => onWire(name, expressions.textOf(cookie)))
    }
  }
  if (template.constant === undefined) return (flow) => onWire(name, template.text(flow))
  const value = wireValue(template.constant)
  if (value === undefined) {
    scope.problem(at, policyErrors.CONFIG_INVALID, 'a header value holds no line break and no other control character')
  }
  return () => value ?? ''
}

/** Interpolated text may come from a client: a line break in it must not become another header field. */
function onWire(name: string, text: string): string {
  const value = wireValue(text)
  if (value === undefined)
    throw new EvaluationError('failed', `the value for the header "${name}" cannot stand in a header`)
  return value
}

/** Maximum nesting of lists and maps in a config value. */
const MAX_DEPTH = 10

/** A config value with `${…}` in its strings at any depth; evaluates to the representation of the expression engine. */
export interface CompiledValue {
  readonly constant: boolean
  /** Throws `EvaluationError`. */
  evaluate(flow: Flow): unknown
}

/**
 * Compiles a YAML value. A string that consists of one `${…}` has the type of its expression; values without expressions are created once.
 * Integers become int, other numbers double.
 */
export function compileValue(value: unknown, at: NodePath, scope: Scope, depth = 0): CompiledValue {
  if (depth > MAX_DEPTH) {
    scope.problem(at, policyErrors.CONFIG_INVALID, `lists and maps nest at most ${MAX_DEPTH} deep`)
    return fixed(null)
  }
  if (typeof value === 'string') {
    const template = scope.template(value, at)
    if (template.constant !== undefined) return fixed(template.constant)
    return { constant: false, evaluate: (flow) => template.value(flow) }
  }
  if (Array.isArray(value)) {
    return compileList(value.map((item, i) => compileValue(item, [...at, i], scope, depth + 1)))
  }
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).map(
      ([key, item]) => [key, compileValue(item, [...at, key], scope, depth + 1)] as const
    )
    return compileMap(entries)
  }
  return fixed(engineValue(value))
}

function fixed(value: unknown): CompiledValue {
  return { constant: true, evaluate: () => value }
}

function compileList(items: readonly CompiledValue[]): CompiledValue {
  const evaluate = (flow: Flow) => items.map((item) => item.evaluate(flow))
  return items.every((item) => item.constant) ? fixed(evaluate(NO_FLOW)) : { constant: false, evaluate }
}

function compileMap(entries: readonly (readonly [string, CompiledValue])[]): CompiledValue {
  const evaluate = (flow: Flow) => new Map(entries.map(([key, item]) => [key, item.evaluate(flow)]))
  return entries.every(([, item]) => item.constant) ? fixed(evaluate(NO_FLOW)) : { constant: false, evaluate }
}

/** Constants do not access their flow. */
const NO_FLOW = undefined as unknown as Flow
