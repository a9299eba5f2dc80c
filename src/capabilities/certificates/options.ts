import type { OptionGroup } from '../../options/group.js'
import * as option from '../../options/values.js'
import { integer, object, optional, text } from '../../schema/values.js'

/** Options of managed certificates. */
export const certificateOptions = {
  after: 'regions',
  options: {
    acme: object(
      {
        agree_terms: option.switched({
          description: 'You agree to the terms of service of the CA. Without that, no certificate is requested.',
          default: 'off'
        }),
        directory: text({
          description: "Directory URL of the ACME CA (RFC 8555); default: Let's Encrypt.",
          default: 'https://acme-v02.api.letsencrypt.org/directory'
        }),
        email: optional(text({ description: 'Contact address for the CA.' })),
        ca: optional(
          option.file({
            description: 'PEM file of CA certificates to verify the ACME server, instead of the public CAs.'
          })
        ),
        eab_kid: optional(
          text({ description: 'Key identifier for external account binding, if the CA requires it (RFC 8555 7.3.4).' })
        ),
        eab_key: optional(
          option.file({ description: 'File with the HMAC key for external account binding, base64url.' })
        ),
        orders: integer({
          description: 'Maximum certificate orders in three hours; others wait.',
          default: 300,
          min: 1,
          max: 1_000_000
        })
      },
      { description: 'Automatic certificates (ACME).' }
    )
  }
} satisfies OptionGroup
