/** Names that nginx and Envoy gateways give to parts of a request, and what says the same here. */
const VARIABLES: Readonly<Record<string, string>> = {
  args: '${req.url.query}',
  query_string: '${req.url.query}',
  authority: '${req.url.authority}',
  host: '${req.url.host}',
  http_host: '${req.host}',
  port: '${req.url.port}',
  server_name: '${req.url.host}',
  server_port: '${req.url.port}',
  scheme: '${req.url.scheme}',
  uri: '${req.url.path}',
  document_uri: '${req.url.path}',
  request_uri: '${req.url.uri}',
  request_method: '${req.method}',
  remote_addr: '${conn.client_ip}',
  user: '${req.url.user_password}',
  is_args: 'an expression over req.url.query',
  is_user: 'an expression over req.url.user_password'
}

/** Placeholders of Caddy, without their braces. */
const PLACEHOLDERS: Readonly<Record<string, string>> = {
  host: '${req.url.host}',
  hostport: '${req.host}',
  method: '${req.method}',
  path: '${req.url.path}',
  query: '${req.url.query}',
  remote_host: '${conn.client_ip}',
  client_ip: '${conn.client_ip}',
  scheme: '${req.url.scheme}',
  uri: '${req.url.uri}'
}

/** The variables as a pattern. */
export const VARIABLE_PATTERN = `\\$(?:arg_\\w+|(?:${Object.keys(VARIABLES).join('|')})(?![a-z_]))`
const FOREIGN = /\$(arg_\w+|[a-z_]+)|(?<!\$)\{([a-z_]+)\}/g

/** A variable of another proxy with what says the same here. */
interface ForeignVariable {
  readonly written: string
  readonly right: string
}

/** The first variable of another proxy in a text: `$remote_addr`, `{remote_host}`. Undefined when there is none. */
export function foreignVariableIn(text: string): ForeignVariable | undefined {
  for (const [written, name = '', placeholder = ''] of text.matchAll(FOREIGN)) {
    if (name.startsWith('arg_')) return { written, right: `\${getQueryParam('${name.slice(4)}')[0]}` }
    const right = Object.hasOwn(VARIABLES, name) ? VARIABLES[name] : PLACEHOLDERS[placeholder]
    if (right !== undefined && (name !== '' || Object.hasOwn(PLACEHOLDERS, placeholder))) return { written, right }
  }
  return undefined
}

/** As `foreignVariableIn`, where such a variable is the whole of a text, which may then well be meant as one. */
export function foreignVariable(text: string): ForeignVariable | undefined {
  const found = foreignVariableIn(text)
  if (found?.written === text) return found
  return /^(?:%\{[A-Z_]+\}[a-z]?|%[A-Z_]{3,}(?:\([^)]*\))?%|%\[[^\]]*\]|\{\{.*\}\})$/.test(text)
    ? { written: text, right: '${…} with an expression' }
    : undefined
}
