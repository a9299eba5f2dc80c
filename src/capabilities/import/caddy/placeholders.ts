import { embedded, literal } from '../cel.js'
import type { Template } from '../model.js'
import { cookieValue, queryParameter, requestField } from '../requests-in-cel.js'

/** CEL of placeholders; the short names are those of Caddyfiles. */
const VALUES: Readonly<Record<string, string>> = {
  client_ip: 'conn.client_ip',
  host: 'req.url.host',
  hostport: 'req.host',
  method: 'req.method',
  path: 'req.url.path',
  query: 'req.url.query',
  remote_host: 'conn.client_ip',
  remote_port: 'string(conn.client_port)',
  scheme: 'req.url.scheme',
  uri: 'req.url.uri',
  'http.request.host': 'req.url.host',
  'http.request.hostport': 'req.host',
  'http.request.method': 'req.method',
  'http.request.proto': 'req.version',
  'http.request.remote.host': 'conn.client_ip',
  'http.request.scheme': 'req.url.scheme',
  'http.request.uri': 'req.url.uri',
  'http.request.uri.path': 'req.url.path',
  'http.request.uri.query': 'req.url.query',
  'http.vars.client_ip': 'conn.client_ip'
}

const PLACEHOLDER = /\{([A-Za-z_][\w.*-]*)\}/g

/** Returns the CEL of a placeholder without braces; undefined if Sluice has no such value. */
function placeholderCel(name: string): string | undefined {
  if (Object.hasOwn(VALUES, name)) return VALUES[name]
  const [, kind, rest = ''] = /^(?:http\.request\.)?(header|cookie|(?:uri\.)?query)\.([\w-]+)$/.exec(name) ?? []
  if (kind === 'header') return requestField(rest)
  if (kind === 'cookie') return cookieValue(rest)
  return kind === undefined ? undefined : queryParameter(rest)
}

interface Part {
  readonly text?: string
  readonly cel?: string
}

function partsOf(text: string): Part[] | undefined {
  const parts: Part[] = []
  let from = 0
  for (const match of text.matchAll(PLACEHOLDER)) {
    const cel = placeholderCel(match[1] as string)
    if (cel === undefined) return undefined
    parts.push({ text: text.slice(from, match.index) }, { cel })
    from = match.index + match[0].length
  }
  parts.push({ text: text.slice(from) })
  return parts.filter(({ text: part }) => part !== '')
}

/** Returns a text with placeholders as a template; undefined if one has no counterpart. */
export function toTemplate(text: string): Template | undefined {
  return partsOf(text)
    ?.map(({ text: part, cel }) => (cel === undefined ? literal(part ?? '') : embedded(cel)))
    .join('')
}

export const hasPlaceholder = (text: string) => text.search(PLACEHOLDER) !== -1

const VARIABLE = /\{\$([A-Za-z_]\w*)(?::([^{}]*))?\}/g

/** Rewrites environment variables to the form of site files, which have them in hosts and URLs of servers. */
export function keepVariables(text: string): string {
  return text.replace(VARIABLE, (_all, name: string, value?: string) =>
    value === undefined ? `\${${name}}` : `\${${name}:-${value}}`
  )
}

/** Inserts the values of environment variables. `unset`: names of those without a value or default. */
export function fillVariables(
  text: string,
  environment: Readonly<Record<string, string | undefined>>
): { readonly text: string; readonly unset: readonly string[]; readonly filled: boolean } {
  const unset: string[] = []
  let filled = false
  const result = text.replace(VARIABLE, (all, name: string, value?: string) => {
    const known = environment[name] ?? value
    if (known === undefined) unset.push(name)
    else filled = true
    return known ?? all
  })
  return { text: result, unset, filled }
}
