import type { RouteTest } from '../model.js'
import { allOf, anyOf, noneOf } from '../requests-in-cel.js'
import { aclCel } from './samples.js'
import type { HaproxyLine } from './syntax.js'

/** Words of each definition of an ACL; several definitions of a name are alternatives. */
export type Acls = ReadonlyMap<string, readonly (readonly string[])[]>

export function aclsOf(lines: readonly HaproxyLine[]): Acls {
  const acls = new Map<string, (readonly string[])[]>()
  for (const { words } of lines) {
    const [keyword, name = '', ...definition] = words
    if (keyword === 'acl') acls.set(name, [...(acls.get(name) ?? []), definition])
  }
  return acls
}

/** One term of a condition: an ACL with its definitions. */
interface Term {
  readonly negated: boolean
  readonly definitions: readonly (readonly string[])[]
}

/** Condition after `if` or `unless`. */
export interface Condition {
  /** True if all terms of one of the groups are; negated by `unless`. */
  readonly groups: readonly (readonly Term[])[]
  readonly unless: boolean
}

/** Splits the words of a rule at `if` or `unless`. */
export function splitCondition(
  words: readonly string[],
  acls: Acls
): { readonly words: readonly string[]; readonly condition?: Condition } {
  const start = words.findIndex((word, index) => index > 0 && (word === 'if' || word === 'unless'))
  if (start === -1) return { words }
  const groups: Term[][] = [[]]
  for (let index = start + 1; index < words.length; index++) {
    let word = words[index] as string
    if (word === 'or' || word === '||') {
      groups.push([])
      continue
    }
    let negated = false
    while (word.startsWith('!')) {
      negated = !negated
      word = word.slice(1)
      if (word === '') word = words[++index] ?? ''
    }
    if (word === '{') {
      const end = words.indexOf('}', index)
      const stop = end === -1 ? words.length : end
      groups.at(-1)?.push({ negated, definitions: [words.slice(index + 1, stop)] })
      index = stop
    } else groups.at(-1)?.push({ negated, definitions: acls.get(word) ?? [[word]] })
  }
  return { words: words.slice(0, start), condition: { groups, unless: words[start] === 'unless' } }
}

/** CEL of a condition; undefined if a part of it has no counterpart. */
export function conditionCel(condition: Condition | undefined): string | undefined {
  if (condition === undefined) return 'true'
  const groups = condition.groups.map((terms) => {
    const tests = terms.map(({ negated, definitions }) => {
      const parts = definitions.map(aclCel)
      if (parts.length === 0 || parts.includes(undefined)) return undefined
      const cel = anyOf(parts as string[])
      return negated ? noneOf(cel) : cel
    })
    return tests.includes(undefined) ? undefined : allOf(tests as string[])
  })
  if (groups.includes(undefined)) return undefined
  const cel = groups.includes('true') ? 'true' : anyOf(groups as string[])
  return condition.unless ? noneOf(cel) : cel
}

/** Tests of a route: a single prefix or path is one that routes of a site file have. */
export function conditionTests(condition: Condition | undefined): readonly RouteTest[] | undefined {
  const [group, ...others] = condition?.groups ?? []
  const [term, ...further] = group ?? []
  const [definition = [], ...more] = term?.definitions ?? []
  const [fetch, value, ...values] = definition
  const isSingle = others.length + further.length + more.length + values.length === 0
  if (
    isSingle &&
    condition?.unless === false &&
    term?.negated === false &&
    value?.startsWith('/') === true &&
    !value.includes('${')
  ) {
    if (fetch === 'path_beg') return [{ kind: 'path-prefix', path: encodeURI(value), border: 'text' }]
    if (fetch === 'path') return [{ kind: 'path-exact', path: encodeURI(value) }]
  }
  const cel = conditionCel(condition)
  if (cel === undefined) return undefined
  return cel === 'true' ? [] : [{ kind: 'expression', cel }]
}

/** Names of user lists, if the condition lets only their users pass: `unless { http_auth(users) }` or its negation. */
export function authListOf({ groups, unless }: Condition): string | undefined {
  const [group = [], ...others] = groups
  const [term, ...further] = group
  if (term === undefined || others.length + further.length > 0 || term.negated === unless) return undefined
  return /^http_auth\((\w+)\)$/.exec(term.definitions[0]?.[0] ?? '')?.[1]
}

/** Threshold of a condition on the rate of requests, such as `{ sc_http_req_rate(0) gt 20 }`. */
export function rateOf({ groups, unless }: Condition): number | undefined {
  const [group = [], ...others] = groups
  const [term, ...further] = group
  if (unless || term === undefined || term.negated || others.length + further.length > 0) return undefined
  const [fetch = '', operator, count = ''] = term.definitions[0] ?? []
  if (!/^(?:sc\d?_http_req_rate|src_http_req_rate)(?:\([\w,-]*\))?$/.test(fetch) || !/^\d+$/.test(count))
    return undefined
  return operator === 'gt' ? Number(count) : operator === 'ge' ? Number(count) - 1 : undefined
}
