import { celText, embedded, literal, toRe2 } from '../cel.js'
import type { Template } from '../model.js'
import type { Directive } from './syntax.js'

/** Value of a variable: a text that is known now, or a CEL expression of a text. */
export type VariableValue = { readonly text: string } | { readonly cel: string }

const header = (name: string) => `hasReqHeader('${name}') ? getReqHeader('${name}')[0] : ''`

const BUILT_IN: Readonly<Record<string, string>> = {
  args: 'req.url.query',
  binary_remote_addr: 'conn.client_ip',
  document_uri: 'req.url.path',
  host: 'req.url.host',
  http_host: 'req.host',
  is_args: "(req.url.query == '' ? '' : '?')",
  https: "(req.url.scheme == 'https' ? 'on' : '')",
  query_string: 'req.url.query',
  realip_remote_addr: 'conn.client_ip',
  remote_addr: 'conn.client_ip',
  remote_port: 'string(conn.client_port)',
  request_method: 'req.method',
  request_uri: 'req.url.uri',
  scheme: 'req.url.scheme',
  server_protocol: 'req.version',
  status: 'string(res.status_code)',
  time_iso8601: 'time.now',
  uri: 'req.url.path'
}

const VARIABLE = /\$(?:\{(\w+)\}|(\w+))/g

/** Variables of one place in the source: those of nginx, of `map`, and those that `set` gave a value. */
export class Variables {
  readonly #own: ReadonlyMap<string, VariableValue>
  readonly #maps: ReadonlyMap<string, Directive>
  /** Names of maps whose value was read. */
  readonly used: Set<string>

  constructor(
    maps: ReadonlyMap<string, Directive>,
    own: ReadonlyMap<string, VariableValue> = new Map(),
    used = new Set<string>()
  ) {
    this.#maps = maps
    this.#own = own
    this.used = used
  }

  with(name: string, value: VariableValue): Variables {
    return new Variables(this.#maps, new Map([...this.#own, [name, value]]), this.used)
  }

  /** The map that defines a variable. */
  map(name: string): Directive | undefined {
    return this.#maps.get(name)
  }

  /** Returns the value of a variable; undefined if Sluice has no such value. */
  value(name: string): VariableValue | undefined {
    const own = this.#own.get(name)
    if (own !== undefined) return own
    if (this.#maps.has(name)) {
      this.used.add(name)
      return { cel: `vars.${name}` }
    }
    if (Object.hasOwn(BUILT_IN, name)) return { cel: BUILT_IN[name] as string }
    const [, kind, rest = ''] = /^(http|cookie|arg|sent_http|upstream_http)_(\w+)$/.exec(name) ?? []
    const field = rest.replaceAll('_', '-')
    if (kind === 'http') return { cel: `(${header(field)})` }
    if (kind === 'arg') return { cel: `(hasQueryParam('${rest}') ? getQueryParam('${rest}')[0] : '')` }
    if (kind === 'cookie') return { cel: `(hasReqCookie('${rest}') ? string(getReqCookie('${rest}').value) : '')` }
    if (kind !== undefined) return { cel: `(hasResHeader('${field}') ? getResHeader('${field}')[0] : '')` }
    if (name === 'content_type') return { cel: `(${header('content-type')})` }
    return undefined
  }

  /** A text with variables as a template; undefined if one is unknown. */
  template(text: string): Template | undefined {
    const parts = this.#parts(text)
    return parts?.map((part) => ('text' in part ? literal(part.text) : embedded(part.cel))).join('')
  }

  /** A text with variables whose values are all known now. */
  constant(text: string): string | undefined {
    let result = ''
    for (const part of this.#parts(text) ?? [{ cel: '' }]) {
      if ('cel' in part) return undefined
      result += part.text
    }
    return result
  }

  /** A text with variables as CEL; undefined if one is unknown. */
  cel(text: string): string | undefined {
    const parts = this.#parts(text)?.filter((part) => !('text' in part) || part.text !== '')
    if (parts === undefined) return undefined
    if (parts.length === 0) return "''"
    return parts.map((part) => ('text' in part ? celText(part.text) : part.cel)).join(' + ')
  }

  #parts(text: string): VariableValue[] | undefined {
    const parts: VariableValue[] = []
    let from = 0
    for (const match of text.matchAll(VARIABLE)) {
      const name = (match[1] ?? match[2]) as string
      // Upper case in braces is a variable of the environment, which site files have too.
      const value = match[1] !== undefined && /^[A-Z][A-Z0-9_]*$/.test(name) ? { text: match[0] } : this.value(name)
      if (value === undefined) return undefined
      parts.push({ text: text.slice(from, match.index) }, value)
      from = match.index + match[0].length
    }
    parts.push({ text: text.slice(from) })
    return parts
  }

  /** The condition of `if` as CEL; undefined if it is about files, or cannot be said. */
  condition(args: readonly string[]): string | undefined {
    const words = [...args]
    const [first = ''] = words
    const last = words.at(-1) ?? ''
    if (!first.startsWith('(') || !last.endsWith(')')) return undefined
    words[0] = first.slice(1)
    words[words.length - 1] = (words.at(-1) as string).slice(0, -1)
    // A parenthesis beside a space or a quoted text is a word of its own.
    if (words[0] === '') words.shift()
    if (last === ')') words.pop()
    const [subject = '', operator, ...rest] = words
    const value = /^\$/.test(subject) ? this.cel(subject) : undefined
    if (value === undefined) return undefined
    if (operator === undefined) return `${value} != '' && ${value} != '0'`
    const operand = rest.join(' ')
    if (operator === '=' || operator === '!=') {
      const other = this.cel(operand)
      return other === undefined ? undefined : `${value} ${operator === '=' ? '==' : '!='} ${other}`
    }
    const [, no, regex] = /^(!?)(~\*?)$/.exec(operator) ?? []
    if (regex === undefined) return undefined
    const pattern = toRe2(operand)
    if (pattern === undefined) return undefined
    const subjectText = value.includes(' + ') ? `(${value})` : value
    return `${no === '!' ? '!' : ''}${subjectText}.matches(${celText(`${regex === '~*' ? '(?i)' : ''}${pattern}`)})`
  }

  /** The value of a `map` as CEL: conditions in the order in which nginx looks at them; undefined if it cannot be said. */
  mapValue(map: Directive): string | undefined {
    const [source = ''] = map.args
    const subject = this.cel(source)
    if (subject === undefined || map.block === undefined) return undefined
    const entries = map.block.filter(({ name }) => name !== 'volatile')
    if (entries.some(({ name }) => name === 'hostnames' || name === 'include')) return undefined
    const given = entries.find(({ name }) => name === 'default')
    const conditions: string[] = []
    const ordered = [
      ...entries.filter(({ name }) => !name.startsWith('~')),
      ...entries.filter(({ name }) => name.startsWith('~'))
    ]
    for (const entry of ordered) {
      if (entry === given) continue
      const value = this.cel(entry.args[0] ?? '')
      const condition = value === undefined ? undefined : matchOf(entry.name, subject)
      if (condition === undefined) return undefined
      conditions.push(`${condition} ? ${value}`)
    }
    const fallback = this.cel(given?.args[0] ?? '')
    if (fallback === undefined) return undefined
    return [...conditions, fallback].join(' : ')
  }
}

/** Texts of a map are compared without regard to case. */
function matchOf(key: string, subject: string): string | undefined {
  const bare = subject.includes(' + ') ? `(${subject})` : subject
  if (!key.startsWith('~')) {
    const text = key.startsWith('\\') ? key.slice(1) : key
    return /[a-z]/i.test(text)
      ? `${bare}.lowerAscii() == ${celText(text.toLowerCase())}`
      : `${bare} == ${celText(text)}`
  }
  const ignoreCase = key.startsWith('~*')
  const pattern = toRe2(key.slice(ignoreCase ? 2 : 1))
  return pattern === undefined ? undefined : `${bare}.matches(${celText(`${ignoreCase ? '(?i)' : ''}${pattern}`)})`
}
