import { timestampText } from '../lib/json.js'
import { newSshSerial, readSshPublicKey, signSshCertificate } from '../lib/ssh-key.js'
import { described, keptText, map, text, texts, time } from './fields.js'
import type { Rule, RuleView } from './members.js'
import { refId } from './references.js'
import { defineResource, type MakeView } from './resource.js'
import { sshCertificateAuthority } from './ssh-certificate-authority.js'

const DAY = 24 * 3600 * 1000
const YEAR = 365 * DAY

const identity = {
  ...described,
  public_key: text({
    description: 'The key to sign, one line of an authorized_keys file.',
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
    values: { type: 'string', maxLength: 1024, 'x-max-bytes': 1024 },
    max: 32,
    fixed: true
  })

const rules: readonly Rule[] = [
  { on: ['public_key'], check: readKey },
  { on: ['valid_after', 'valid_until'], check: inOrder }
]

/** Lets clients know a host without asking. */
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
      form: 'ssh_principal',
      max: 100,
      fixed: true
    }),
    ...validity
  },
  rules,
  make: signer('host', YEAR)
})

/** Lets a user log in at servers that trust the authority. */
export const sshUserCertificate = defineResource({
  name: 'ssh_user_certificate',
  description: 'An SSH certificate with which a user logs in at servers that trust its authority.',
  path: '/ssh_user_certificates',
  listKey: 'ssh_user_certificates',
  idPrefix: 'sucrt',
  events: 'ssh_user_certificate',
  fields: {
    ...identity,
    principals: texts({ description: 'Login names; empty: all.', form: 'ssh_principal', max: 100, fixed: true }),
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
  Object.assign(body, { public_key: key.text, key_type: key.type })
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

/** Signs when the record is made. `span`: milliseconds of validity when no end is given. */
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
