import { createSocket } from 'node:dgram'
import t from 'tap'
import { listCertificates, verifyDomains } from '../../../src/capabilities/certificates/command-verify.js'
import {
  nameBytes,
  RCODE,
  type ResourceData,
  readQuery,
  writeAnswer
} from '../../../src/capabilities/certificates/dns/message.js'
import { type Lookup, verifyDomain, verifyIngress } from '../../../src/capabilities/certificates/dns/requirements.js'
import { systemClock } from '../../../src/lib/clock.js'
import { create } from '../../helpers/account.js'
import { API_KEY, startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { startIssuingAuthority } from './issuing-authority.js'

const CNAME = 5

/** The DNS as a map of `name TYPE` to values. */
function dns(records: Readonly<Record<string, readonly string[]>>): Lookup {
  const at = async (name: string, type: string) => records[`${name} ${type}`] ?? []
  return {
    cname: (name) => at(name, 'CNAME'),
    addresses: (name) => at(name, 'A'),
    ns: (name) => at(name, 'NS'),
    caa: async (name, tag) => records[`${name} ${tag}`]
  }
}

const MANAGED = { authority: 'letsencrypt' }
const domain = (more: object) => ({
  domain: 'app.example.com',
  cname_target: 'r.cname.sluice.test',
  acme_challenge_cname_target: null,
  certificate_management_policy: null,
  ...more
})

t.test('a domain leads here by a CNAME record, or by the same addresses', async (t) => {
  const verify = async (records: Readonly<Record<string, readonly string[]>>) => {
    const [finding] = await verifyDomain(domain({}), dns(records))
    return `${finding?.ok} ${finding?.says}`
  }
  t.equal(await verify({}), 'false nothing')
  t.equal(await verify({ 'app.example.com CNAME': ['R.cname.sluice.test.'] }), 'true r.cname.sluice.test')
  t.equal(await verify({ 'app.example.com CNAME': ['elsewhere.test'] }), 'false elsewhere.test')
  const here = { 'r.cname.sluice.test A': ['192.0.2.1', '192.0.2.2'] }
  t.equal(await verify({ ...here, 'app.example.com A': ['192.0.2.2'] }), 'true 192.0.2.2')
  t.equal(await verify({ ...here, 'app.example.com A': ['192.0.2.2', '192.0.2.3'] }), 'false 192.0.2.2, 192.0.2.3')
  t.same(await verifyDomain(domain({ cname_target: null }), dns({})), [], 'below a zone of the service')
})

t.test('a managed wildcard also needs the record of its challenge', async (t) => {
  const wildcard = domain({
    domain: '*.example.com',
    acme_challenge_cname_target: 'r.acme.sluice.test',
    certificate_management_policy: MANAGED
  })
  const lookup = dns({
    'sluice-dns-check.example.com CNAME': ['r.cname.sluice.test'],
    '_acme-challenge.example.com CNAME': ['other.acme.sluice.test']
  })
  const findings = await verifyDomain(wildcard, lookup)
  t.same(
    findings.map(({ name, type, ok }) => `${name} ${type} ${ok}`),
    ['*.example.com CNAME true', '_acme-challenge.example.com CNAME false', 'example.com CAA true']
  )
})

t.test('CAA records of the closest name decide, those for wildcards before the others', async (t) => {
  const verify = async (name: string, records: Readonly<Record<string, readonly string[]>>) => {
    const facts = domain({ domain: name, certificate_management_policy: MANAGED })
    const findings = await verifyDomain(facts, dns(records))
    const { name: at, ok, says } = findings.find(({ type }) => type === 'CAA') ?? {}
    return `${at} ${ok} ${says}`
  }
  t.equal(await verify('a.b.example.com', {}), 'a.b.example.com true nothing')
  t.equal(await verify('a.b.example.com', { 'example.com issue': ['other.test'] }), 'example.com false other.test')
  const closer = { 'example.com issue': ['other.test'], 'b.example.com issue': ['other.test', 'letsencrypt.org'] }
  t.equal(await verify('a.b.example.com', closer), 'b.example.com true other.test, letsencrypt.org')
  const wild = { 'example.com issue': ['letsencrypt.org'], 'example.com issuewild': [''] }
  t.match(await verify('*.example.com', wild), /^example\.com false/)
  t.match(await verify('example.com', wild), /^example\.com true/)
})

t.test('an agent ingress is delegated to this service and nobody else', async (t) => {
  const ingress = { domain: 'connect.example.com', ns_targets: ['ns1.sluice.test.', 'ns2.sluice.test.'] }
  const ok = async (...servers: string[]) =>
    (await verifyIngress(ingress, dns({ 'connect.example.com NS': servers })))[0]?.ok
  t.same([await ok(), await ok('ns1.sluice.test'), await ok('ns1.sluice.test', 'ns.other.test')], [false, true, false])
})

t.test('the command asks the API of a running Sluice and a real resolver', async (t) => {
  const sluice = await startSluice(t)
  const made = await create(sluice, '/reserved_domains', { domain: 'app.example.com' })
  await create(sluice, '/reserved_domains', { domain: 'b.example.com' })
  const target = nameBytes(made.cname_target)
  const socket = createSocket('udp4')
  socket.on('message', (bytes, peer) => {
    const reading = readQuery(bytes)
    if (reading === undefined || !reading.ok) return
    const { name, type } = reading.query
    const answers: ResourceData[] = name === 'app.example.com' && type === CNAME ? [{ type, ttl: 1, data: target }] : []
    const answer = { rcode: RCODE.NOERROR, authoritative: false, answers }
    socket.send(writeAnswer(reading.query, answer, 'udp'), peer.port, peer.address)
  })
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise<void>((resolve) => socket.close(() => resolve())))
  const run = async (
    names: readonly string[],
    more: { key?: string; api?: string; json?: boolean; dns?: string } = {}
  ) => {
    const lines: string[] = []
    const errors: string[] = []
    const {
      key = API_KEY,
      api = `http://127.0.0.1:${sluice.apiPort}/`,
      dns = `127.0.0.1:${socket.address().port}`
    } = more
    const flags = { api, dns: [dns], json: more.json === true }
    const print = { out: (line: string) => lines.push(line), error: (line: string) => errors.push(line) }
    return { code: await verifyDomains(names, flags, { SLUICE_API_KEY: key }, print), lines, errors }
  }
  t.match(await run(['APP.example.com.']), {
    code: 0,
    lines: ['app.example.com: DNS records are correct', '  right  app.example.com CNAME']
  })
  const every = await run([])
  t.equal(every.code, 1)
  t.match(
    every.lines.join('\n'),
    /b\.example\.com: DNS records are not correct yet\n {2}WRONG {2}b\.example\.com CNAME\n.*must say/
  )
  const json = await run(['b.example.com'], { json: true })
  t.match(JSON.parse(json.lines[0] ?? ''), { domain: 'b.example.com', type: 'CNAME', ok: false, says: 'nothing' })
  t.match(await run(['c.example.com']), {
    code: 1,
    errors: [/c\.example\.com is neither a reserved domain nor an agent ingress/]
  })
  t.match(await run([], { key: '' }), { code: 2, errors: [/SLUICE_API_KEY/] })
  t.match(await run([], { key: 'a-wrong-key-0123456789' }), { code: 1, errors: [/does not accept the key/] })
  t.match(await run([], { api: 'ftp://x' }), { code: 2 })
  t.match(await run([], { api: 'http://127.0.0.1:1' }), { code: 1, errors: [/cannot be reached/] })
  t.match(await run([], { dns: 'resolver.test' }), { code: 2, errors: [/no IP address/] })
})

t.test('sluice certificates: what is issued, requested, waiting and failed', async (t) => {
  const refuses = ([name]: readonly string[]) => (name === 'busy.example.com' ? 7_200 : undefined)
  const ca = await startIssuingAuthority(t, systemClock, 90 * 86_400_000, { refuses })
  const options = { ACME_AGREE_TERMS: 'on', ACME_DIRECTORY: ca.authority.directory, ACME_ORDERS: '2' }
  const sluice = await startSluice(t, { options })
  const run = async (more: { key?: string; json?: boolean; api?: string } = {}) => {
    const [lines, errors]: [string[], string[]] = [[], []]
    const { key = API_KEY, api = `http://127.0.0.1:${sluice.apiPort}`, json = false } = more
    const print = { out: (line: string) => lines.push(line), error: (line: string) => errors.push(line) }
    return { code: await listCertificates({ api, json }, { SLUICE_API_KEY: key }, print), lines, errors }
  }
  t.match(await run(), { code: 0, lines: ['0 issued'] })
  const policy = { certificate_management_policy: { authority: 'letsencrypt' } }
  const states = async () => (await run({ json: true })).lines.map((line) => JSON.parse(line).state).sort()
  await create(sluice, '/reserved_domains', { domain: 'plain.example.com' })
  await create(sluice, '/reserved_domains', { domain: 'app.example.com', ...policy })
  await until(async () => (await states()).join() === 'issued')
  t.match(await run(), {
    code: 0,
    lines: [/^app\.example\.com: issued, renewal at 20/, '1 issued']
  })
  await create(sluice, '/reserved_domains', { domain: 'busy.example.com', ...policy })
  await until(async () => (await states()).join() === 'failed,issued')
  await create(sluice, '/reserved_domains', { domain: 'late.example.com', ...policy })
  await until(async () => /turn/.test((await run()).lines.join()))
  const { code, lines } = await run()
  t.equal(code, 1)
  const all = lines.join('\n')
  t.match(all, /^busy\.example\.com: INTERNAL_ERROR, next attempt at 20\S+Z: .*rateLimited \(429\)$/m)
  t.match(all, /^late\.example\.com: waiting, to be requested at about 20\S+Z: .*allows 2 orders in three hours\.$/m)
  t.match(all, /^1 issued, 1 waiting, 1 failed$/m)
  t.match(await run({ key: '' }), { code: 2, errors: [/SLUICE_API_KEY/] })
  t.match(await run({ api: 'http://127.0.0.1:1' }), { code: 1, errors: [/cannot be reached/] })
})
