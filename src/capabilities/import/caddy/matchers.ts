import { celText, toRe2 } from '../cel.js'
import type { RouteTest } from '../model.js'
import {
  allOf,
  anyOf,
  clientIn,
  conditionOf,
  escapeRegex,
  expressionTest,
  hostIs,
  noneOf,
  queryParameter
} from '../requests-in-cel.js'
import type { CaddyDirective } from './syntax.js'

/** The directives of a named matcher, or a path. */
export type NamedMatchers = ReadonlyMap<string, readonly CaddyDirective[]>

interface MatcherContext {
  readonly named: NamedMatchers
  /** Prefix that an outer `handle_path` has removed from the path. */
  readonly prefix: string
  /** Also match paths that differ in case, as Caddy does: for all that protects. */
  readonly ignoreCase: boolean
}

/** Returns the tests of a matcher token (`*`, `/path*`, `@name`); undefined if a part has no counterpart in Sluice. */
export function matcherTests(token: string | undefined, context: MatcherContext): readonly RouteTest[] | undefined {
  if (token === undefined || token === '*') return []
  if (token.startsWith('/')) return pathTests([token], context)
  const directives = context.named.get(token.slice(1))
  return directives === undefined ? undefined : setTests(directives, context)
}

/** Returns the tests of a set, all of which must match. Several matchers of one kind count as one with all values. */
function setTests(directives: readonly CaddyDirective[], context: MatcherContext): readonly RouteTest[] | undefined {
  const tests: RouteTest[] = []
  const groups = new Map<string, CaddyDirective>()
  for (const directive of directives) {
    const { name, args } = directive
    const isJoined = ['path', 'method', 'host', 'remote_ip', 'client_ip', 'protocol'].includes(name)
    const key = isJoined ? name : JSON.stringify([name, args, groups.size])
    const known = groups.get(key)
    groups.set(key, known === undefined ? directive : { ...known, args: [...known.args, ...args] })
  }
  for (const directive of groups.values()) {
    const found = oneTest(directive, context)
    if (found === undefined) return undefined
    tests.push(...found)
  }
  return tests
}

function oneTest({ name, args, block }: CaddyDirective, context: MatcherContext): readonly RouteTest[] | undefined {
  if (args.some((arg) => arg.includes('{$'))) return undefined
  switch (name) {
    case 'path':
      return pathTests(args, context)
    case 'path_regexp': {
      const pattern = toRe2(args.at(-1) ?? '')
      // The pattern is for the path without the prefix, which Sluice still sees.
      if (pattern === undefined || context.prefix !== '') return undefined
      return [{ kind: 'path-regex', pattern, ignoreCase: false }]
    }
    case 'method':
      return args.length === 0 ? undefined : [{ kind: 'method', methods: args.map((method) => method.toUpperCase()) }]
    case 'host':
      return args.some((host) => /[{}]|.\*/.test(host)) || args.length === 0
        ? undefined
        : expressionTest(anyOf(args.map(hostIs)))
    case 'remote_ip':
    case 'client_ip':
      return expressionTest(clientIn(args.filter((arg) => arg !== 'forwarded')))
    case 'header':
      return expressionTest(headerCel(args))
    case 'header_regexp': {
      const [field = '', pattern = ''] = args.slice(-2)
      const converted = toRe2(pattern)
      return converted === undefined
        ? undefined
        : expressionTest(`getReqHeader(${celText(field.toLowerCase())}).exists(v, v.matches(${celText(converted)}))`)
    }
    case 'query':
      return expressionTest(anyOfPairs(args))
    case 'protocol':
      return args.every((arg) => arg === 'http' || arg === 'https') && args.length > 0
        ? expressionTest(anyOf(args.map((arg) => `req.url.scheme == ${celText(arg)}`)))
        : undefined
    case 'not': {
      const inner =
        block === undefined ? [{ name: args[0] ?? '', args: args.slice(1), block: undefined, at: EMPTY }] : block
      const tests = setTests(inner, context)
      if (tests === undefined) return undefined
      return expressionTest(noneOf(conditionOf(tests) ?? 'true'))
    }
    default:
      return undefined
  }
}

const EMPTY = { file: '', line: 0, column: 0 }

function anyOfPairs(args: readonly string[]): string | undefined {
  const tests = args.map((arg) => {
    const [name = '', value = ''] = arg.split(/=(.*)/s)
    if (/[{}]/.test(arg) || value.includes('*')) return value === '*' ? `hasQueryParam(${celText(name)})` : undefined
    return `${queryParameter(name)} == ${celText(value)}`
  })
  return tests.length === 0 || tests.includes(undefined) ? undefined : anyOf(tests as string[])
}

/** Returns the CEL of `Field`, `!Field` or `Field value`; a value may begin or end with a star. */
function headerCel([name = '', value]: readonly string[]): string | undefined {
  const field = celText(name.replace(/^!/, '').toLowerCase())
  if (name.startsWith('!')) return `!hasReqHeader(${field})`
  if (name === '' || value?.includes('{') === true) return undefined
  if (value === undefined || value === '*') return `hasReqHeader(${field})`
  const bare = celText(value.replace(/^\*|\*$/g, ''))
  const test =
    value.startsWith('*') && value.endsWith('*')
      ? `v.contains(${bare})`
      : value.startsWith('*')
        ? `v.endsWith(${bare})`
        : value.endsWith('*')
          ? `v.startsWith(${bare})`
          : `v == ${bare}`
  return `(hasReqHeader(${field}) && getReqHeader(${field}).exists(v, ${test}))`
}

function pathTests(paths: readonly string[], context: MatcherContext): readonly RouteTest[] | undefined {
  if (paths.length === 0 || paths.some((path) => /[{}]/.test(path))) return undefined
  const tests = paths.map((path) => pathTest(path, context))
  const [only, ...others] = tests
  if (others.length === 0 && only !== undefined) return [only]
  return expressionTest(anyOf(tests.map((test) => allOf([conditionOf([test]) ?? 'true']))))
}

function pathTest(written: string, { prefix, ignoreCase }: MatcherContext): RouteTest {
  const path = written === '*' ? '/*' : written
  const [stars, end] = [path.split('*').length - 1, path.endsWith('*')]
  if (ignoreCase || stars > 1 || (stars === 1 && !end)) {
    const parts = path.split('*').map(escapeRegex)
    // A star at the start, the end or both also matches slashes; other stars do not.
    const ends = /^\*?[^*]*\*?$/.test(path)
    return { kind: 'path-regex', pattern: `^${escapeRegex(prefix)}${parts.join(ends ? '.*' : '[^/]*')}$`, ignoreCase }
  }
  const plain = encodeURI(`${prefix}${end ? path.slice(0, -1) : path}`)
  return end ? { kind: 'path-prefix', path: plain, border: 'text' } : { kind: 'path-exact', path: plain }
}

/** Returns the sort key of directives with one name in Caddy: the length of the longest path, without a star at its end. */
export function matcherWeight(token: string | undefined, named: NamedMatchers): readonly [number, number] {
  if (token === undefined || token === '*') return [2, 0]
  const paths = token.startsWith('/')
    ? [token]
    : (named.get(token.slice(1)) ?? []).flatMap(({ name, args }) => (name === 'path' ? args : []))
  if (paths.length !== 1) return [1, 0]
  const [path = ''] = paths
  // A path with a star is less specific than the same one without.
  return [0, -(path.replace(/\*$/, '').length * 2 - (path.endsWith('*') ? 1 : 0))]
}
