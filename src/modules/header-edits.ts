import type { HeaderFields } from '../flow/headers.js'
import { parseAuthority } from '../lib/host.js'
import { refusalToRemove, refusalToWrite, wireValue } from '../policy/actions/header-rules.js'
import type { ModuleScope } from './contract.js'

/** The configuration of the modules that edit header fields. */
export interface HeaderEdits {
  readonly add: Readonly<Record<string, string>>
  readonly remove: readonly string[]
}

/**
 * Removes fields, from a request in every spelling that an upstream may read as the same name, and then adds others; a field
 * that is there already stays beside the added one. What would change how a message is framed, or belongs to one hop, is left
 * out and told to the log: it was stored before it was refused.
 */
export function compileHeaderEdits(
  { add, remove }: HeaderEdits,
  side: 'request' | 'response',
  { owner, services }: ModuleScope
) {
  const leftOut: string[] = []
  const removing = remove.filter((name) => {
    const refusal = refusalToRemove(name)
    if (refusal !== undefined) leftOut.push(refusal)
    return refusal === undefined
  })
  const adding: (readonly [name: string, value: string])[] = []
  for (const [name, written] of Object.entries(add)) {
    const value = wireValue(written)
    const refusal = refusalToAdd(name, value)
    if (refusal !== undefined) leftOut.push(refusal)
    else if (value !== undefined) adding.push([name, value])
  }
  if (leftOut.length > 0) services.log.warn({ owner, leftOut }, 'header fields cannot be edited as configured')
  return (fields: HeaderFields): void => {
    for (const name of removing) {
      if (side === 'request') fields.deleteSpellings(name)
      else fields.delete(name)
    }
    for (const [name, value] of adding) {
      if (name === 'host') fields.set(name, value)
      else fields.append(name, value)
    }
  }
}

function refusalToAdd(name: string, value: string | undefined): string | undefined {
  if (value === undefined) return `the value for "${name}" cannot stand in a header`
  if (name === 'host' && parseAuthority(value) === undefined)
    return 'the value for "host" is no host with an optional port'
  return refusalToWrite(name)
}
