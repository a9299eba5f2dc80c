import { execFile, spawnSync } from 'node:child_process'
import { createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import {
  generateSshKey,
  newSshSerial,
  readSshPublicKey,
  type SshKeySpec,
  signSshCertificate
} from '../../src/resources/ssh-key.js'

const run = promisify(execFile)

const SPECS: readonly (readonly [SshKeySpec, string, number])[] = [
  [{ type: 'ed25519' }, 'ED25519', 256],
  [{ type: 'ecdsa', curve: 'p256' }, 'ECDSA', 256],
  [{ type: 'ecdsa', curve: 'p384' }, 'ECDSA', 384],
  [{ type: 'ecdsa', curve: 'p521' }, 'ECDSA', 521],
  [{ type: 'rsa', bits: 2048 }, 'RSA', 2048],
  [{ type: 'rsa', bits: 4096 }, 'RSA', 4096]
]

const skip = spawnSync('ssh-keygen', ['-?']).error === undefined ? false : 'ssh-keygen is not installed'

/** Output of ssh-keygen over `text`. */
async function keygen(t: Test, flag: '-l' | '-L', text: string): Promise<string> {
  const file = join(t.testdir(), 'file.pub')
  await writeFile(
    file,
    `${text}
`
  )
  return (await run('ssh-keygen', [flag, '-f', file])).stdout
}

for (const [spec, name, bits] of SPECS) {
  t.test(`a key pair of ${name} with ${bits} bits`, async (t) => {
    const { publicKey, privateKey } = await generateSshKey(spec)
    const read = readSshPublicKey(`${publicKey} a comment`)
    t.match(read, { type: spec.type, text: publicKey })
    t.equal(readSshPublicKey(publicKey.slice(0, -8)), undefined, 'a cut key is none')
    t.ok(createPrivateKey(privateKey))
    await t.test('ssh-keygen reads it', { skip }, async (t) => {
      t.match(await keygen(t, '-l', publicKey), new RegExp(`^${bits} .*\\(${name}\\)`))
    })
  })
}

for (const [spec] of SPECS) {
  if (spec.type === 'rsa' && spec.bits === 4096) continue
  t.test(`ssh-keygen reads certificates signed by ${JSON.stringify(spec)}`, { skip }, async (t) => {
    const authority = await generateSshKey(spec)
    const subject = await generateSshKey(spec)
    const key = readSshPublicKey(subject.publicKey)!
    const request = {
      key,
      authorityKey: authority.privateKey,
      serial: 12_345_678_901_234n,
      keyId: 'the id',
      validAfter: Date.UTC(2026, 0, 1) / 1000,
      validBefore: Date.UTC(2026, 0, 2) / 1000,
      nonce: randomBytes(32)
    }
    const user = signSshCertificate({
      ...request,
      kind: 'user',
      principals: ['ann', 'bob'],
      criticalOptions: { 'force-command': '/bin/true' },
      extensions: { 'permit-pty': '', 'permit-X11-forwarding': '' }
    })
    const host = signSshCertificate({
      ...request,
      kind: 'host',
      principals: [],
      criticalOptions: {},
      extensions: {}
    })
    const [shownUser, shownHost] = [await keygen(t, '-L', user), await keygen(t, '-L', host)]
    t.match(shownUser, /user certificate/)
    t.match(shownUser, /Serial: 12345678901234/)
    t.match(shownUser, /Key ID: "the id"/)
    t.match(shownUser, /Principals:\s+ann\s+bob/)
    t.match(shownUser, /force-command \/bin\/true/)
    t.match(shownUser, /Extensions:\s+permit-X11-forwarding\s+permit-pty/)
    t.match(shownHost, /host certificate/)
    t.match(shownHost, /Extensions: \(none\)/)
  })
}

t.test('ssh-keygen checks the signature itself: a changed certificate is refused', { skip }, async (t) => {
  const authority = await generateSshKey({ type: 'ed25519' })
  const certificate = signSshCertificate({
    kind: 'host',
    key: readSshPublicKey(authority.publicKey)!,
    authorityKey: authority.privateKey,
    serial: 1n,
    keyId: 'k',
    principals: ['h'],
    validAfter: 0,
    validBefore: 2_000_000_000,
    criticalOptions: {},
    extensions: {},
    nonce: randomBytes(32)
  })
  const [algorithm, base64 = ''] = certificate.split(' ')
  t.match(await keygen(t, '-L', certificate), /host certificate/)
  const bytes = Buffer.from(base64, 'base64')
  bytes[bytes.length - 1]! ^= 1
  await t.rejects(keygen(t, '-L', `${algorithm} ${bytes.toString('base64')}`))
})

t.test('what is no public key of a kind that SSH uses today is none', async (t) => {
  const blob = (...parts: (string | Buffer)[]) =>
    Buffer.concat(
      parts.map((part) => {
        const bytes = Buffer.from(part)
        const length = Buffer.alloc(4)
        length.writeUInt32BE(bytes.length)
        return Buffer.concat([length, bytes])
      })
    ).toString('base64')
  const small = createPublicKey(generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey).export({
    format: 'jwk'
  })
  const modulus = Buffer.concat([Buffer.of(0), Buffer.from(small.n!, 'base64url')])
  const { publicKey } = await generateSshKey({ type: 'ed25519' })
  for (const line of [
    '',
    'ssh-ed25519',
    'ssh-ed25519 AAAA',
    publicKey.replace('ssh-ed25519', 'ssh-rsa'),
    `no-pty ${publicKey}`,
    `${publicKey}\n${publicKey}`,
    `ssh-dss ${blob('ssh-dss', 'a', 'b')}`,
    `ssh-ed25519 ${blob('ssh-ed25519', randomBytes(31))}`,
    `ecdsa-sha2-nistp256 ${blob('ecdsa-sha2-nistp256', 'nistp256', Buffer.concat([Buffer.of(4), Buffer.alloc(64, 1)]))}`,
    `ecdsa-sha2-nistp256 ${blob('ecdsa-sha2-nistp256', 'nistp256', Buffer.alloc(65))}`,
    `ssh-rsa ${blob('ssh-rsa', Buffer.of(1, 0, 1), modulus)}`,
    `ssh-rsa ${blob('ssh-rsa', '', '')}`
  ]) {
    t.equal(readSshPublicKey(line), undefined, line.slice(0, 60))
  }
})

t.test('serial numbers come from random bytes and fit 63 bits', async (t) => {
  t.equal(
    newSshSerial(() => Buffer.alloc(8, 0xff)),
    2n ** 63n - 1n
  )
  t.not(newSshSerial(), newSshSerial())
})
