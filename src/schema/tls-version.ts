import { defineField, type Field } from './field.js'
import { choice } from './fields.js'

/** Lowest TLS version that Sluice speaks. */
export const LOWEST_TLS_VERSION = '1.2'

/** Lowest version of TLS that clients can use; 1.0 and 1.1 are rejected with the reason (RFC 8996). */
export function minTlsVersion(): Field<string> {
  const version = choice([LOWEST_TLS_VERSION, '1.3'], {
    description: 'Lowest version of TLS.',
    default: LOWEST_TLS_VERSION
  })
  return defineField<string>({
    ...version,
    read(written, at, path, reading) {
      if (written !== '1.0' && written !== '1.1') return version.read(written, at, path, reading)
      const message = 'must be 1.2 or 1.3: TLS 1.0 and 1.1 are broken (RFC 8996) and not spoken'
      reading.report({ field: at, code: 'FIELD_INVALID', message })
      return undefined
    }
  })
}
