import { get } from 'node:http'
import t from 'tap'
import { systemClock } from '../../../src/lib/clock.js'
import { account, create } from '../../helpers/account.js'
import { startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { startIssuingAuthority } from './issuing-authority.js'
import { PUBLIC } from './limited-world.js'

t.test('the product: 24 names are done within a minute of its own clock', async (t) => {
  let port = 0
  const proof = (host: string, path: string) =>
    new Promise<Uint8Array | undefined>((resolve, reject) => {
      get({ port, host: '127.0.0.1', path, headers: { host } }, (answer) => {
        const chunks: Buffer[] = []
        answer.on('data', (chunk: Buffer) => chunks.push(chunk))
        answer.on('end', () => resolve(answer.statusCode === 200 ? Buffer.concat(chunks) : undefined))
      }).on('error', reject)
    })
  const ca = await startIssuingAuthority(t, systemClock, 90 * 86_400_000, { limits: PUBLIC, proof })
  const options = { ACME_AGREE_TERMS: 'on', ACME_DIRECTORY: ca.authority.directory }
  const sluice = await startSluice(t, { options })
  port = sluice.port
  const started = performance.now()
  for (let n = 0; n < 24; n++) {
    const policy = { certificate_management_policy: { authority: 'letsencrypt' } }
    await create(sluice, '/reserved_domains', { domain: `d${n}.example.com`, ...policy })
  }
  const ask = account(sluice)
  const issued = async () =>
    (await ask('/reserved_domains?limit=100')).json.reserved_domains.filter(
      (one: { certificate: unknown }) => one.certificate !== null
    ).length
  await until(async () => (await issued()) === 24)
  const seconds = (performance.now() - started) / 1_000
  t.ok(seconds <= 60, `${seconds} s`)
  t.equal(ca.counts.limited, 0)
})
