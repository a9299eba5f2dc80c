import { celText, toRe2 } from '../cel.js'
import type { RouteTest } from '../model.js'
import { anyOf, clientIn, conditionOf, expressionTest, hostIs, noneOf, queryParameter } from '../requests-in-cel.js'

/** A rule of a router as a tree. */
export type Rule =
  | { readonly kind: 'and' | 'or'; readonly parts: readonly Rule[] }
  | { readonly kind: 'not'; readonly part: Rule }
  | { readonly kind: 'matcher'; readonly name: string; readonly args: readonly string[] }

const MAX_DEPTH = 64

/** A rule that is not written in the grammar of Traefik. `offset`: place in the text. */
export class RuleSyntaxError extends Error {
  readonly offset: number

  constructor(problem: string, offset: number) {
    super(problem)
    this.offset = offset
  }
}

/** Reads a rule such as ``Host(`a.test`) && !PathPrefix(`/b`)``. Throws RuleSyntaxError. */
export function parseRule(text: string): Rule {
  let at = 0
  const skip = () => {
    while (/\s/.test(text[at] ?? '')) at++
  }
  const takes = (sign: string) => {
    skip()
    if (!text.startsWith(sign, at)) return false
    at += sign.length
    return true
  }
  const list = (kind: 'and' | 'or', sign: string, next: (depth: number) => Rule, depth: number): Rule => {
    const parts = [next(depth)]
    while (takes(sign)) parts.push(next(depth))
    return parts.length === 1 ? (parts[0] as Rule) : { kind, parts }
  }
  const either = (depth: number): Rule => list('or', '||', both, depth)
  const both = (depth: number): Rule => list('and', '&&', unary, depth)
  const unary = (depth: number): Rule => {
    if (depth > MAX_DEPTH) throw new RuleSyntaxError(`the rule is nested deeper than ${MAX_DEPTH}`, at)
    if (takes('!')) return { kind: 'not', part: unary(depth + 1) }
    if (takes('(')) {
      const inner = either(depth + 1)
      if (!takes(')')) throw new RuleSyntaxError('a bracket is not closed', at)
      return inner
    }
    return matcher()
  }
  const matcher = (): Rule => {
    skip()
    const name = /^[A-Za-z]\w*/.exec(text.slice(at, at + 64))?.[0]
    if (name === undefined) throw new RuleSyntaxError('a matcher is missing', at)
    at += name.length
    if (!takes('(')) throw new RuleSyntaxError(`"${name}" has no arguments`, at)
    const args: string[] = []
    while (!takes(')')) {
      if (args.length > 0 && !takes(',')) throw new RuleSyntaxError('a comma is missing', at)
      skip()
      args.push(argument())
    }
    return { kind: 'matcher', name, args }
  }
  const argument = (): string => {
    const quote = text[at]
    const end = quote === '`' || quote === '"' ? text.indexOf(quote, at + 1) : -1
    if (end === -1) throw new RuleSyntaxError('an argument stands in ` or "', at)
    const value = text.slice(at + 1, end)
    at = end + 1
    return value
  }
  const rule = either(0)
  skip()
  if (at < text.length) throw new RuleSyntaxError(`"${text[at]}" follows the rule`, at)
  return rule
}

/** CEL of a rule; undefined if a matcher has no counterpart. */
export function ruleCel(rule: Rule): string | undefined {
  if (rule.kind === 'not') {
    const inner = ruleCel(rule.part)
    return inner === undefined ? undefined : noneOf(inner)
  }
  if (rule.kind === 'matcher') {
    const tests = matcherTests(rule)
    return tests === undefined ? undefined : (conditionOf(tests) ?? 'true')
  }
  const parts = rule.parts.map(ruleCel)
  if (parts.includes(undefined)) return undefined
  return rule.kind === 'or' ? anyOf(parts as string[]) : `(${parts.join(' && ')})`
}

/** Tests of a matcher that is no host; undefined if it has no counterpart. */
export function matcherTests({
  name,
  args
}: {
  readonly name: string
  readonly args: readonly string[]
}): readonly RouteTest[] | undefined {
  const of = (test: (value: string) => RouteTest): readonly RouteTest[] | undefined => {
    const tests = args.map(test)
    if (tests.length < 2) return tests.length === 0 ? undefined : tests
    return expressionTest(anyOf(tests.map((one) => conditionOf([one]) ?? 'true')))
  }
  const [first = '', second = ''] = args
  switch (name) {
    case 'Host':
      return args.length === 0 ? undefined : expressionTest(anyOf(args.map(hostIs)))
    case 'HostRegexp': {
      const pattern = toRe2(first)
      return pattern === undefined || /\{\w+:/.test(first)
        ? undefined
        : expressionTest(`req.url.host.matches(${celText(`(?i)${pattern}`)})`)
    }
    case 'Path':
      return args.some((path) => path.includes('{'))
        ? undefined
        : of((path) => ({ kind: 'path-exact', path: encodeURI(path) }))
    case 'PathPrefix':
      return args.some((path) => path.includes('{'))
        ? undefined
        : of((path) => ({ kind: 'path-prefix', path: encodeURI(path), border: 'text' }))
    case 'PathRegexp': {
      const pattern = toRe2(first)
      return pattern === undefined ? undefined : [{ kind: 'path-regex', pattern, ignoreCase: false }]
    }
    case 'Method':
      return args.length === 0 ? undefined : [{ kind: 'method', methods: args.map((method) => method.toUpperCase()) }]
    case 'Header':
    case 'Headers':
      return args.length === 2
        ? expressionTest(`getReqHeader(${celText(first.toLowerCase())}).exists(v, v == ${celText(second)})`)
        : undefined
    case 'HeaderRegexp':
    case 'HeadersRegexp': {
      const pattern = toRe2(second)
      return pattern === undefined
        ? undefined
        : expressionTest(`getReqHeader(${celText(first.toLowerCase())}).exists(v, v.matches(${celText(pattern)}))`)
    }
    case 'Query': {
      const [key = '', value = second] = args.length === 1 ? first.split(/=(.*)/s) : args
      return args.length === 1 && !first.includes('=')
        ? expressionTest(`hasQueryParam(${celText(first)})`)
        : expressionTest(`${queryParameter(key)} == ${celText(value)}`)
    }
    case 'ClientIP':
      return expressionTest(clientIn(args))
    default:
      return undefined
  }
}

/** Hosts that a rule is for, with the rest of the rule; `*` for a rule without a host at its first level. */
export function splitHosts(rule: Rule): { readonly hosts: readonly string[]; readonly rest: readonly Rule[] } {
  const parts = rule.kind === 'and' ? rule.parts : [rule]
  const index = parts.findIndex((part) => hostsOf(part) !== undefined)
  if (index === -1) return { hosts: ['*'], rest: parts }
  return { hosts: hostsOf(parts[index] as Rule) as string[], rest: parts.filter((_part, place) => place !== index) }
}

function hostsOf(rule: Rule): string[] | undefined {
  if (rule.kind === 'matcher')
    return rule.name === 'Host' && rule.args.length > 0 ? rule.args.map((host) => host.toLowerCase()) : undefined
  if (rule.kind !== 'or') return undefined
  const parts = rule.parts.map(hostsOf)
  return parts.includes(undefined) ? undefined : (parts as string[][]).flat()
}
