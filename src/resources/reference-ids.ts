import Type from 'typebox'
import type { Link, OnTargetDelete, Reading } from './field.js'

/** What a reference must know of the resource it points to. */
export interface Target {
  readonly name: string
  readonly path: string
  readonly idPrefix: string
}

const DIGITS = /^[0-9A-Za-z]{1,64}$/

export const refSchema = Type.Object(
  { id: Type.String(), uri: Type.String() },
  { additionalProperties: false, description: 'A reference to another resource.' }
)

/** `{id, uri}` of a record of `target`; its path must have no parameter. */
export function refTo(baseUrl: string, target: Target, id: string): { id: string; uri: string } {
  return { id, uri: `${baseUrl}${target.path}/${id}` }
}

/** The target whose ids look like `id`. */
export function targetOf(targets: readonly Target[], id: string): Target | undefined {
  return targets.find(({ idPrefix }) => id.startsWith(`${idPrefix}_`) && DIGITS.test(id.slice(idPrefix.length + 1)))
}

/** Reads the id of a record of one of `targets`; undefined after a report. */
export function readId(targets: readonly Target[], value: unknown, at: string, reading: Reading): string | undefined {
  if (typeof value !== 'string') {
    reading.report({ field: at, code: 'FIELD_INVALID', message: 'must be an id' })
    return undefined
  }
  if (targetOf(targets, value) !== undefined) return value
  const kinds = targets.map(({ name, idPrefix }) => `${name} (${idPrefix}_…)`).join(', ')
  reading.report({ field: at, code: 'REF_INVALID', message: `must be the id of a ${kinds}` })
  return undefined
}

/** The row of the reference table for one id. */
export function link(
  targets: readonly Target[],
  id: string,
  field: string,
  position: number,
  onTargetDelete: OnTargetDelete = 'refuse'
): Link[] {
  const target = targetOf(targets, id)
  return target === undefined ? [] : [{ field, position, kind: target.name, id, onTargetDelete }]
}

/** Reads a list of different ids; undefined after a report. Bounds belong to the range. */
export function readIds(
  targets: readonly Target[],
  { min, max }: { min: number; max: number },
  value: unknown,
  at: string,
  reading: Reading
): string[] | undefined {
  const refuse = (code: string, message: string) => {
    reading.report({ field: at, code, message })
    return undefined
  }
  if (!Array.isArray(value)) return refuse('FIELD_INVALID', 'must be a list of ids')
  if (value.length < min) return refuse('FIELD_INVALID', `must have at least ${min} ${min === 1 ? 'entry' : 'entries'}`)
  if (value.length > max) return refuse('TOO_MANY', `must not have more than ${max} entries`)
  const ids = value.map((id, index) => readId(targets, id, `${at}[${index}]`, reading))
  if (ids.includes(undefined)) return undefined
  if (new Set(ids).size < ids.length) return refuse('FIELD_INVALID', 'must not hold an id twice')
  return ids as string[]
}
