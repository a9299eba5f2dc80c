import Type from 'typebox'
import { timestampText } from '../lib/json.js'
import { defineField } from '../schema/field.js'
import { choice, described, keptText, map, text, texts, time } from '../schema/fields.js'
import type { Rule, RuleView } from '../schema/objects.js'
import { refId } from '../schema/references.js'
import * as values from '../schema/values.js'
import { defineResource, type MakeView } from './resource.js'
import {
  generateSshKey,
  newSshSerial,
  readSshPublicKey,
  type SshCurve,
  type SshKeySpec,
  signSshCertificate
} from './ssh-key.js'

const SIZES = [2048, 4096]

/** Size of an RSA key; 0 if not given. */
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

/** Key that signs SSH certificates. It is generated here and never leaves the store. */
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

const DAY = 24 * 3600 * 1000
const YEAR = 365 * DAY

const identity = {
  ...described,
  public_key: text({
    description: 'The key to sign, one line of an authorized_keys file; kept with its comment.',
    bytes: 16 * 1024,
    required: true,
    fixed: true
  }),
  key_type: keptText('Type of the key: rsa, ecdsa or ed25519.'),
  ssh_certificate_authority_id: refId(sshCertificateAuthority, {
    description: 'The authority that signs.',
    required: true,
    fixed: true
  })
}

const validity = {
  valid_after: time({ description: 'Start of the validity (RFC 3339); now unless given.', fixed: true }),
  valid_until: time({ description: 'End of the validity (RFC 3339).', fixed: true }),
  certificate: keptText('The signed certificate, one line.')
}

const options = (description: string) =>
  map<string>({
    description,
    keys: 'ssh_principal',
    values: values.text({ description: 'Value of the option; empty where it has none.', max: 1024, bytes: 1024 }),
    max: 32,
    fixed: true
  })

const rules: readonly Rule[] = [
  { on: ['public_key'], check: readKey },
  { on: ['valid_after', 'valid_until'], check: inOrder }
]

/** Certificate of a host, so that clients trust it without a prompt. */
export const sshHostCertificate = defineResource({
  name: 'ssh_host_certificate',
  description: 'An SSH certificate by which clients know a host.',
  path: '/ssh_host_certificates',
  listKey: 'ssh_host_certificates',
  idPrefix: 'shcrt',
  events: 'ssh_host_certificate',
  fields: {
    ...identity,
    principals: texts({
      description: 'Host names that it is good for; empty: all.',
      item: 'A host name.',
      form: 'ssh_principal',
      max: 100,
      fixed: true
    }),
    ...validity
  },
  rules,
  make: signer('host', YEAR)
})

/** Certificate of a user for servers that trust the authority. */
export const sshUserCertificate = defineResource({
  name: 'ssh_user_certificate',
  description: 'An SSH certificate with which a user logs in at servers that trust its authority.',
  path: '/ssh_user_certificates',
  listKey: 'ssh_user_certificates',
  idPrefix: 'sucrt',
  events: 'ssh_user_certificate',
  fields: {
    ...identity,
    principals: texts({
      description: 'Login names; empty: all.',
      item: 'A login name.',
      form: 'ssh_principal',
      max: 100,
      fixed: true
    }),
    critical_options: options('Options that a server must understand, such as force-command.'),
    extensions: options('What the login may do; permit-pty and permit-user-rc unless given.'),
    ...validity
  },
  rules: [...rules, { on: ['extensions'], check: defaultExtensions }],
  make: signer('user', DAY)
})

function readKey({ body, given, report }: RuleView): void {
  if (!given.has('public_key')) return
  const key = readSshPublicKey(body.public_key as string)
  if (key === undefined) {
    const allowed = 'ssh-ed25519, ssh-rsa with at least 2048 bits, or ecdsa-sha2-nistp256, -384 or -521'
    report('public_key', 'FIELD_INVALID', `must be a public key of an authorized_keys file: ${allowed}`)
    return
  }
  Object.assign(body, { public_key: (body.public_key as string).trim(), key_type: key.type })
}

function inOrder({ body: { valid_after: after, valid_until: until }, report }: RuleView): void {
  if (after !== null && until !== null && Date.parse(after as string) >= Date.parse(until as string)) {
    report('valid_until', 'FIELD_INVALID', 'must be later than valid_after')
  }
}

function defaultExtensions({ body, given, before }: RuleView): void {
  if (before !== undefined || given.has('extensions')) return
  body.extensions = { 'permit-pty': '', 'permit-user-rc': '' }
}

/** Returns the function that signs a new record. `span`: default validity (ms). */
function signer(kind: 'host' | 'user', span: number) {
  return async ({ id, body, before, makers, report }: MakeView): Promise<void> => {
    if (before !== undefined) return
    const authority = await makers.find(sshCertificateAuthority.name, body.ssh_certificate_authority_id as string)
    const authorityKey = authority?.secrets.private_key
    const key = readSshPublicKey(body.public_key as string)
    if (authorityKey === undefined || key === undefined) {
      report('ssh_certificate_authority_id', 'REF_NOT_FOUND', 'there is no such authority')
      return
    }
    const from = body.valid_after === null ? makers.clock.wall() : Date.parse(body.valid_after as string)
    const until = body.valid_until === null ? from + span : Date.parse(body.valid_until as string)
    if (until <= from) {
      report('valid_until', 'FIELD_INVALID', 'must be later than valid_after')
      return
    }
    body.valid_after = timestampText(from)
    body.valid_until = timestampText(until)
    body.certificate = signSshCertificate({
      kind,
      key,
      authorityKey,
      serial: newSshSerial(makers.random),
      keyId: id,
      principals: body.principals as string[],
      validAfter: Math.floor(from / 1000),
      validBefore: Math.floor(until / 1000),
      criticalOptions: (body.critical_options ?? {}) as Record<string, string>,
      extensions: (body.extensions ?? {}) as Record<string, string>,
      nonce: makers.random(32)
    })
  }
}
