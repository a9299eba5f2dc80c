import Type from 'typebox'
import { generateSshKey, type SshCurve, type SshKeySpec } from '../lib/ssh-key.js'
import { defineField } from './field.js'
import { choice, described, keptText } from './fields.js'
import type { RuleView } from './members.js'
import { defineResource, type MakeView } from './resource.js'

const SIZES = [2048, 4096]

/** Size of an RSA key; 0 when not given. */
const keySize = defineField<number>({
  description: 'Bits of an RSA key: 2048 or 4096 (default).',
  initial: 0,
  settable: 'create',
  request: Type.Unsafe<number>({
    type: 'integer',
    enum: SIZES,
    description: 'Bits of an RSA key: 2048 or 4096 (default).'
  }),
  read(value, at, _path, reading) {
    if (SIZES.includes(value as number)) return value as number
    reading.report({ field: at, code: 'FIELD_INVALID', message: 'must be 2048 or 4096' })
    return undefined
  },
  present: (stored) => stored
})

/** A key that signs SSH certificates. It is made here and never leaves. */
export const sshCertificateAuthority = defineResource({
  name: 'ssh_certificate_authority',
  description: 'A key, made by the service, that signs SSH certificates of hosts and users.',
  path: '/ssh_certificate_authorities',
  listKey: 'ssh_certificate_authorities',
  idPrefix: 'sshca',
  events: 'ssh_certificate_authority',
  fields: {
    ...described,
    public_key: keptText('Public key, one line of an authorized_keys file without a comment.'),
    key_type: keptText('Type of the key: rsa, ecdsa or ed25519.'),
    private_key_type: choice(['ed25519', 'rsa', 'ecdsa'], {
      description: 'Type of the key to make.',
      fixed: true,
      hidden: true,
      default: 'ed25519'
    }),
    elliptic_curve: choice(['p256', 'p384', 'p521'], {
      description: 'Curve of an ECDSA key; p256 unless given.',
      fixed: true,
      hidden: true
    }),
    key_size: keySize
  },
  rules: [
    { on: ['private_key_type', 'elliptic_curve'], check: onlyFor('elliptic_curve', 'ecdsa') },
    { on: ['private_key_type', 'key_size'], check: onlyFor('key_size', 'rsa') }
  ],
  make: makeKey
})

function onlyFor(name: string, type: string) {
  return ({ body, report }: RuleView): void => {
    const unset = body[name] === '' || body[name] === 0
    if (!unset && body.private_key_type !== type) {
      report(name, 'CONFLICTING_FIELDS', `needs private_key_type ${type}`)
    }
  }
}

async function makeKey({ body, before, secret }: MakeView): Promise<void> {
  if (before !== undefined) return
  const { publicKey, privateKey } = await generateSshKey(specOf(body))
  body.public_key = publicKey
  body.key_type = body.private_key_type
  secret('private_key', privateKey)
}

function specOf({ private_key_type: type, elliptic_curve: curve, key_size: bits }: MakeView['body']): SshKeySpec {
  if (type === 'rsa') return { type, bits: bits === 2048 ? 2048 : 4096 }
  if (type === 'ecdsa') return { type, curve: curve === '' ? 'p256' : (curve as SshCurve) }
  return { type: 'ed25519' }
}
