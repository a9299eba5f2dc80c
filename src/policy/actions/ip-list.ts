import { EvaluationError } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import { type Cidr, CidrSet, parseCidr } from '../../lib/ip.js'
import type { Scope } from '../action.js'
import type { NodePath } from '../problem.js'
import { isPlaceholderWord } from './placeholder.js'

/** Texts that one list keeps parsed. */
const KEPT = 256

/** The entry that holds `address` in canonical text, or undefined. Throws `EvaluationError`. */
export type IpList = (address: string, flow: Flow) => string | undefined

/** Compiles a list of addresses and networks; entries with `${…}` are read when they are needed. */
export function compileIpList(sources: readonly string[], at: NodePath, scope: Scope): IpList {
  const constant: Cidr[] = []
  const dynamic: ((address: string, flow: Flow) => string | undefined)[] = []
  for (const [i, source] of sources.entries()) {
    const template = scope.template(source, [...at, i])
    if (template.constant === undefined) dynamic.push(interpolated((flow) => template.value(flow)))
    else {
      const cidr = parseCidr(template.constant.trim())
      if (cidr !== undefined) constant.push(cidr)
      else if (isPlaceholderWord(source)) {
        const message = `"${source}" is a placeholder: put an address or a network in its place`
        scope.unavailable([...at, i], message, 'PLACEHOLDER')
      } else
        scope.problem([...at, i], 'CONFIG_INVALID', `"${source}" is no IP address and no network such as 192.0.2.0/24`)
    }
  }
  const set = new CidrSet(constant)
  if (dynamic.length === 0) return (address) => set.match(address)
  return (address, flow) => {
    const found = set.match(address)
    if (found !== undefined) return found
    for (const entry of dynamic) {
      const match = entry(address, flow)
      if (match !== undefined) return match
    }
    return undefined
  }
}

/** An entry whose text, or list of texts, an expression gives. */
function interpolated(value: (flow: Flow) => unknown): (address: string, flow: Flow) => string | undefined {
  const kept = new Map<string, CidrSet>()
  return (address, flow) => {
    const given = value(flow)
    for (const text of Array.isArray(given) ? given : [given]) {
      const match = setOf(text, kept).match(address)
      if (match !== undefined) return match
    }
    return undefined
  }
}

function setOf(text: unknown, kept: Map<string, CidrSet>): CidrSet {
  const known = typeof text === 'string' ? kept.get(text) : undefined
  if (known !== undefined) return known
  const cidr = typeof text === 'string' ? parseCidr(text.trim()) : undefined
  if (cidr === undefined)
    throw new EvaluationError('failed', 'an entry is no IP address and no network after interpolation')
  const set = new CidrSet([cidr])
  if (kept.size >= KEPT) kept.clear()
  kept.set(text as string, set)
  return set
}
