import Type from 'typebox'
import { isObject } from '../lib/json.js'
import type { FieldCode } from '../schema/errors.js'
import { defineField, type Field, type Reading } from '../schema/field.js'
import { choice, nullable } from '../schema/fields.js'
import { object } from '../schema/objects.js'

/** The only place of a Sluice: everywhere where it listens. */
const GLOBAL = 'global'

const DESCRIPTION =
  'Where the domain resolves to: [{"value": "global"}], everywhere where Sluice listens; null: the same.'
const ADVICE =
  'there are no points of presence, and traffic is taken where Sluice listens; to keep it in a region, run Sluice there and let the DNS record ' +
  'of the domain lead to it alone'

const place = object(
  { value: choice([GLOBAL], { description: 'Always global.', required: true }) },
  { description: 'A place.' }
)

type Places = readonly { readonly value: string }[] | null

/** Returns the field with the places that take the traffic of a domain. Points of presence are rejected with advice. */
export function resolvesTo(): Field<Places> {
  return defineField<Places>({
    description: DESCRIPTION,
    initial: null,
    onNull: 'clears',
    request: Type.Array(place.request ?? Type.Object({}), { description: DESCRIPTION, maxItems: 1 }),
    response: nullable(
      Type.Array(Type.Object({ value: Type.String({ description: 'Always global.' }) }, { description: 'A place.' }), {
        description: DESCRIPTION
      })
    ),
    read: readPlaces,
    present: (stored) => stored?.map(({ value }) => ({ value })) ?? null
  })
}

function readPlaces(written: unknown, at: string, path: string, reading: Reading): Places | undefined {
  const refuse = (field: string, message: string, code: FieldCode = 'FIELD_INVALID') =>
    reading.report({ field, code, message })
  if (!Array.isArray(written)) {
    refuse(at, 'must be a list')
    return undefined
  }
  if (written.length === 0) return null
  const other = written.findIndex((one) => isObject(one) && typeof one.value === 'string' && one.value !== GLOBAL)
  if (other !== -1) {
    refuse(`${at}[${other}].value`, `must be "${GLOBAL}": ${ADVICE}`)
    return undefined
  }
  if (written.length > 1) {
    refuse(at, `must have one entry, "${GLOBAL}"`, 'TOO_MANY')
    return undefined
  }
  const read = place.read(written[0], `${at}[0]`, `${path}[0]`, reading)
  return read == null ? undefined : [{ value: read.value }]
}
