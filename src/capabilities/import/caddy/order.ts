import { matcherWeight, type NamedMatchers } from './matchers.js'
import type { CaddyDirective } from './syntax.js'

/** Order of directives (caddyconfig/httpcaddyfile/directives.go); `route` alone keeps the order of the file. */
export const ORDER = [
  'map',
  'vars',
  'fs',
  'root',
  'log_append',
  'log_skip',
  'skip_log',
  'log_name',
  'header',
  'request_body',
  'redir',
  'method',
  'rewrite',
  'uri',
  'try_files',
  'basic_auth',
  'basicauth',
  'forward_auth',
  'request_header',
  'encode',
  'push',
  'intercept',
  'templates',
  'invoke',
  'handle',
  'handle_path',
  'route',
  'abort',
  'error',
  'respond',
  'metrics',
  'reverse_proxy',
  'php_fastcgi',
  'file_server',
  'acme_server',
  'handle_errors'
]
/** Directives that decide who may pass, or what is sent: without them the route would be open or wrong. */
export const CLOSING = [
  'forward_auth',
  'php_fastcgi',
  'method',
  'intercept',
  'templates',
  'invoke',
  'acme_server',
  'metrics',
  'authorize',
  'authenticate',
  'jwtauth',
  'rate_limit',
  'fs',
  'error',
  'security'
]

export function matchersOf(directives: readonly CaddyDirective[], outer: NamedMatchers): NamedMatchers {
  const named = new Map(outer)
  for (const { name, args, block, at } of directives) {
    if (!name.startsWith('@')) continue
    const [first, ...others] = args
    // A quoted text alone is an expression of Caddy.
    const inline =
      first === undefined ? [] : [{ name: first, args: others, block: first === 'not' ? block : undefined, at }]
    named.set(name.slice(1), first === undefined ? (block ?? []) : inline)
  }
  return named
}

export function sorted(directives: readonly CaddyDirective[], named: NamedMatchers): CaddyDirective[] {
  const rank = ({ name }: CaddyDirective) => {
    const place = ORDER.indexOf(name === 'handle_path' ? 'handle' : name)
    // An unknown directive closes the site, so it comes first.
    return place === -1 ? -1 : place
  }
  return directives
    .filter(({ name }) => !name.startsWith('@') && !['log', 'tls', 'bind', 'import', 'handle_errors'].includes(name))
    .map((directive, index) => ({ directive, index, weight: matcherWeight(splitMatcher(directive).matcher, named) }))
    .sort(
      (one, other) =>
        rank(one.directive) - rank(other.directive) ||
        one.weight[0] - other.weight[0] ||
        one.weight[1] - other.weight[1] ||
        one.index - other.index
    )
    .map(({ directive }) => directive)
}

/** Splits a directive into its matcher, which its first argument can be, and the rest. */
export function splitMatcher(directive: CaddyDirective): {
  readonly matcher: string | undefined
  readonly rest: CaddyDirective
} {
  const { name, args } = directive
  const [first, ...others] = args
  const isAlone = others.length === 0 && ['root', 'rewrite', 'redir'].includes(name)
  if (
    first === undefined ||
    name === 'map' ||
    name === 'try_files' ||
    !/^(?:\*$|\/|@)/.test(first) ||
    (isAlone && !first.startsWith('@'))
  )
    return { matcher: undefined, rest: directive }
  // The block needs the path of handle_path for what it strips.
  return { matcher: first, rest: { ...directive, args: name === 'handle_path' ? [first] : others } }
}

export const isServing = ({ name }: CaddyDirective) =>
  [
    'handle',
    'handle_path',
    'route',
    'respond',
    'redir',
    'abort',
    'reverse_proxy',
    'file_server',
    'rewrite',
    'uri',
    'root'
  ].includes(name)

/** Returns true if a directive refuses requests or decides which clients may pass. */
export function doesProtect({ name, args, block = [] }: CaddyDirective): boolean {
  if (['basic_auth', 'basicauth', 'abort', 'error', 'request_body'].includes(name) || CLOSING.includes(name))
    return true
  if (name === 'respond') return args.some((arg) => /^[45]\d\d$/.test(arg))
  return (name.startsWith('handle') || name === 'route') && block.some(doesProtect)
}
