/** Request variables of nginx and Envoy gateways, with the equivalent expressions. */
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

/** Placeholders of Caddy, without braces. */
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

/** Pattern that matches the variables. */
export const VARIABLE_PATTERN = `\\$(?:arg_\\w+|(?:${Object.keys(VARIABLES).join('|')})(?![a-z_]))`
/** Matches variables and placeholders of other proxies. */
const FOREIGN = /\$(arg_\w+|[a-z_]+)|(?<!\$)\{([a-z_]+)\}/g

/** A variable of another proxy with its equivalent. */
interface ForeignVariable {
  readonly written: string
  readonly right: string
}

/** Finds the first variable of another proxy in a text (`$remote_addr`, `{remote_host}`); undefined without one. */
export function foreignVariableIn(text: string): ForeignVariable | undefined {
  for (const [written, name = '', placeholder = ''] of text.matchAll(FOREIGN)) {
    if (name.startsWith('arg_')) return { written, right: `\${getQueryParam('${name.slice(4)}')[0]}` }
    const right = Object.hasOwn(VARIABLES, name) ? VARIABLES[name] : PLACEHOLDERS[placeholder]
    if (right !== undefined && (name !== '' || Object.hasOwn(PLACEHOLDERS, placeholder))) return { written, right }
  }
  return undefined
}

/** Finds a variable of another proxy if it is the whole text, and so probably intended as one. */
export function foreignVariable(text: string): ForeignVariable | undefined {
  const found = foreignVariableIn(text)
  if (found?.written === text) return found
  return /^(?:%\{[A-Z_]+\}[a-z]?|%[A-Z_]{3,}(?:\([^)]*\))?%|%\[[^\]]*\]|\{\{.*\}\})$/.test(text)
    ? { written: text, right: '${…} with an expression' }
    : undefined
}
