import Type from 'typebox'
import { hashOf } from '../lib/seal.js'
import { checkValue } from './check.js'
import { defineField, type Field, type Makers } from './field.js'
import { type FieldOptions, keptTextOrNull, nullable, optionsOf } from './fields.js'
import type { FormName } from './formats.js'
import { text } from './values.js'

interface SecretOptions extends FieldOptions {
  readonly bytes: number
  readonly form?: FormName
  /** `owner`: shown to the record's owner and to administrators, null for others; `null`: always null; `absent`: never in a response. */
  readonly shown: 'owner' | 'null' | 'absent'
}

/** A text that is encrypted at rest. The record stores whether it is set; the text is stored separately under the field's path. */
export function secret(options: SecretOptions): Field<boolean> {
  const { description, bytes, form, shown, required = false } = options
  const { type, ...value } = text({
    description,
    ...(required ? { min: 1 } : {}),
    max: bytes,
    bytes,
    ...(form === undefined ? {} : { form })
  })
  const request = Type.Unsafe<string>({ type, description, writeOnly: true, ...value })
  return defineField<boolean>({
    description,
    initial: false,
    onNull: 'clears',
    ...optionsOf<boolean>(options),
    request,
    ...(shown === 'absent' ? {} : { response: nullable(Type.String({ description })) }),
    read(value, at, path, reading) {
      if (value === '' && !required) return false
      const read = checkValue(request, value, at, (field, code, message) => reading.report({ field, code, message }))
      if (typeof read !== 'string') return undefined
      reading.secret(path, read)
      return true
    },
    present: (_stored, path, record, { showSecrets }) =>
      shown === 'owner' && showSecrets(record) ? (record.secrets[path] ?? null) : null
  })
}

/** A generated key, shown once in the response to its creation; the record stores its hash. */
export function token(space: string): Field<string | null> {
  return {
    ...keptTextOrNull('The token; given in the answer of its creation only, null in every other.'),
    unique: { space, within: [] },
    present: () => null,
    onCreate(id, makers) {
      const made = makeToken(id, makers)
      return { stored: hashOf(made), once: made }
    }
  }
}

const TOKEN_BYTES = 32

/** `<KSUID of the record>_<256 random bits>`. */
function makeToken(id: string, { random }: Makers): string {
  return `${id.slice(id.indexOf('_') + 1)}_${Buffer.from(random(TOKEN_BYTES)).toString('hex')}`
}
