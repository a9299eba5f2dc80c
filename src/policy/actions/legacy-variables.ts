/** Names that other proxies give in replacements, and what says the same here. */
const SUBSTITUTES: Readonly<Record<string, string>> = {
  args: '${req.url.query}',
  query_string: '${req.url.query}',
  authority: '${req.url.authority}',
  host: '${req.url.host}',
  port: '${req.url.port}',
  scheme: '${req.url.scheme}',
  uri: '${req.url.path}',
  user: '${req.url.user_password}',
  is_args: 'an expression over req.url.query',
  is_user: 'an expression over req.url.user_password'
}
/** The same as a pattern. */
export const LEGACY_NAMES = `\\$(?:arg_\\w+|(?:${Object.keys(SUBSTITUTES).join('|')})(?![a-z_]))`
const LEGACY = /\$(arg_\w+|[a-z_]+)/g

/** What to write instead of a variable such as `$args` in `to`, or undefined when there is none in it. */
export function legacyVariableIn(to: string): string | undefined {
  for (const [written, name = ''] of to.matchAll(LEGACY)) {
    if (name.startsWith('arg_')) return notVariable(written, `\${getQueryParam('${name.slice(4)}')[0]}`)
    if (Object.hasOwn(SUBSTITUTES, name)) return notVariable(written, SUBSTITUTES[name] as string)
  }
  return undefined
}

function notVariable(written: string, substitute: string): string {
  return `"${written}" is not a variable of this language; write ${substitute}`
}
