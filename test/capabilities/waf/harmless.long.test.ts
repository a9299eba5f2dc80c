import { appendFileSync, copyFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { WafReport } from '../../../src/capabilities/waf/answers.js'
import { crsFolder } from '../../features/waf/crs-suite.js'
import {
  attacksLike,
  FALSE_POSITIVES,
  HARMLESS_SETTINGS,
  type HarmlessRequest,
  harmlessRequests
} from '../../features/waf/harmless.js'
import { sluice, started } from '../site-file/site-kit.js'

const skip = crsFolder === undefined ? 'there is no folder of the Core Rule Set: set SLUICE_CRS' : false

const POLICY = `on_http_request:
  - actions:
      - type: owasp-crs-request
        config:
          paranoia: 1
          process_body: true
`

/** Starts an application that answers a request after its body: a body that comes later than the answer is not recorded. */
async function application(t: Test): Promise<string> {
  const server = createServer((message, response) => message.resume().on('end', () => response.end('here')))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise<void>((resolve) => server.close(() => resolve())))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function stand(t: Test) {
  const folder = t.testdir({ 'policy.yaml': `${POLICY}          enforce: false\n`, rules: {} })
  const rules = join(folder, 'rules')
  symlinkSync(join(crsFolder as string, 'rules'), join(rules, 'rules'))
  copyFileSync(join(crsFolder as string, 'crs-setup.conf.example'), join(rules, 'crs-setup.conf'))
  appendFileSync(join(rules, 'crs-setup.conf'), HARMLESS_SETTINGS)
  // Without a condition, at most 50 matches a second are recorded.
  const recorder = { SLUICE_RECORDER_WHERE: 'true', SLUICE_RECORDER_BODIES: '8KiB' }
  const env = { SLUICE_WAF_RULES: rules, SLUICE_TRUSTED_PROXIES: '127.0.0.0/8', ...recorder }
  const words = ['--upstream', await application(t), '--policy', 'policy.yaml']
  const { api, traffic, process } = await started(t, folder, env, ...words)
  let applied = 0
  /** Changes the policy of the running process. */
  const apply = async (policy: string) => {
    applied++
    writeFileSync(join(folder, 'policy.yaml'), policy)
    process.child.kill('SIGHUP')
    // Another message is about a file that has not changed.
    await process.logged('reloaded"', applied)
  }
  const report = async () => {
    const { code, out, err } = await sluice(folder, 'waf', 'report', '--json', '--trust', '192.0.2.0/24', '--api', api)
    if (code !== 0) throw new Error(err)
    return JSON.parse(out) as WafReport
  }
  return { apply, report, send: (message: HarmlessRequest, client: string) => sendTo(traffic, message, client) }
}

/** Sends a request as one of a client; returns the status. */
function sendTo(url: string, { method, uri, headers, body }: HarmlessRequest, client: string): Promise<number> {
  const bytes = Buffer.from(body ?? '')
  const length = body === undefined ? {} : { 'content-length': String(bytes.length) }
  const all = { ...headers, ...length, 'x-forwarded-for': client }
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, path: uri, headers: all, agent: false }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0))
    })
    sent.on('error', reject).end(bytes)
  })
}

const CLIENTS = ['192.0.2.1', '192.0.2.2', '192.0.2.3']
const SCANNER = '198.51.100.9'

t.test('with the proposed exclusions no harmless request is denied, and every attack is', { skip }, async (t) => {
  const { apply, report, send } = await stand(t)
  const names = Object.keys(FALSE_POSITIVES)
  const falsePositives = harmlessRequests.filter(({ name }) => names.includes(name))
  const attacks = falsePositives.flatMap(attacksLike)
  for (const one of harmlessRequests) for (const client of CLIENTS) t.equal(await send(one, client), 200, one.name)
  for (const one of attacks) await send(one, SCANNER)

  const { proposals, withheld, proof, denied } = await report()
  t.equal(denied, CLIENTS.length * names.length + attacks.length)
  t.same(withheld, [])
  t.match(proof, {
    denied: { before: denied, after: attacks.length },
    hostile: { before: attacks.length, after: attacks.length }
  })
  const [proposal, ...others] = proposals
  t.same(others, [])

  await apply(POLICY)
  for (const one of falsePositives) t.equal(await send(one, '192.0.2.1'), 403, `${one.name}, by the rules as they are`)
  await apply(POLICY + (proposal?.yaml ?? '').replaceAll(/^/gm, '          '))
  for (const one of harmlessRequests) t.equal(await send(one, '192.0.2.1'), 200, one.name)
  for (const one of attacks) t.equal(await send(one, SCANNER), 403, one.name)
})
