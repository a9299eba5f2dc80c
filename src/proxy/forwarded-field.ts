/** Element of `Forwarded` (RFC 7239 4). Values are unquoted. */
export interface ForwardedElement {
  /** Parameter `for`. */
  readonly node: string | undefined
  readonly host: string | undefined
  readonly proto: string | undefined
  /** All other parameters: lower-case name, value, name, value… */
  readonly others: readonly string[]
}

/** Element without information (RFC 7239 6.2). */
const UNKNOWN: ForwardedElement = { node: 'unknown', host: undefined, proto: undefined, others: [] }

/** Optional parameter with its separator. An unquoted value may contain colons and brackets of an address, as some senders write it. */
const PARAMETER =
  /[\t ]*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)[\t ]*=[\t ]*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]+)))?[\t ]*([;,]|$)/y

/**
 * Parses a `Forwarded` value in order. An invalid value is split at every comma, and invalid pieces become unknown elements, so that a
 * client cannot hide what a proxy appended.
 */
export function parseForwarded(text: string): readonly ForwardedElement[] {
  return scan(text) ?? text.split(',').flatMap((piece) => scan(piece) ?? [UNKNOWN])
}

function scan(text: string): ForwardedElement[] | undefined {
  const elements: ForwardedElement[] = []
  let parameters = new Map<string, string>()
  PARAMETER.lastIndex = 0
  for (;;) {
    const found = PARAMETER.exec(text)
    if (found === null) return undefined
    const [, name, quoted, plain, end] = found
    if (name !== undefined) parameters.set(name.toLowerCase(), quoted?.replace(/\\(.)/g, '$1') ?? (plain as string))
    if (end === ';') continue
    if (parameters.size > 0) elements.push(elementOf(parameters))
    if (end === '') return elements
    parameters = new Map()
  }
}

function elementOf(parameters: Map<string, string>): ForwardedElement {
  const [node, host, proto] = ['for', 'host', 'proto'].map((name) => {
    const value = parameters.get(name)
    parameters.delete(name)
    return value
  })
  return { node, host, proto, others: [...parameters].flat() }
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/** Formats an element; adds brackets to IPv6 addresses and quotes where needed (RFC 7239 4 and 6). */
export function formatElement({ node, host, proto, others }: ForwardedElement): string {
  let text = ''
  const add = (name: string, value: string | undefined): void => {
    if (value !== undefined) text += `${text === '' ? '' : ';'}${name}=${quoted(value)}`
  }
  add('for', node)
  add('host', host)
  add('proto', proto)
  for (let i = 0; i < others.length; i += 2) add(others[i] as string, others[i + 1])
  return text
}

function quoted(value: string): string {
  return TOKEN.test(value) ? value : `"${value.replace(/["\\]/g, '\\$&')}"`
}
