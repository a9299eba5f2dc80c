import t from 'tap'
import { Ledger } from '../../../src/capabilities/certificates/ledger.js'
import { targetOf } from '../../../src/capabilities/certificates/target.js'
import { selfSigned } from '../../../src/lib/self-signed.js'
import { hasFailed, isIssued, LETSENCRYPT, Managed } from './managed.js'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

t.test('a certificate is overdue when its renewal has not succeeded within ten minutes', async (t) => {
  const managed = await Managed.open(t)
  const { certificates, clock, control } = managed
  const options = { regions: ['global'], dns: true }
  const { id } = await managed.create('reserved_domain', { domain: 'app.example.com', ...LETSENCRYPT })
  const issue = async () => {
    const target = targetOf(await managed.get('reserved_domain', id), options)
    if (target === undefined) throw new Error('no target')
    const issued = await selfSigned('x', ['app.example.com'], clock.wall())
    const renews_at = new Date(clock.wall() + HOUR).toISOString()
    const work = { order: null, challenges: [], issued: { key_type: 'ecdsa' as const, names: ['app.example.com'] } }
    const status = { renews_at, provisioning_job: null }
    await new Ledger(control, clock, options).install(target, issued, {
      status,
      work: { ...target.work, ...work } as typeof work & NonNullable<typeof target.work>,
      requestedKey: null
    })
    await certificates.tick()
  }
  await certificates.tick()
  t.ok(hasFailed(await managed.get('reserved_domain', id)), 'there is no authority')
  clock.advance(24 * HOUR)
  t.equal(certificates.overdue, 0, 'one that was never issued has no renewal time')
  await issue()
  t.ok(isIssued(await managed.get('reserved_domain', id)))
  t.equal(certificates.overdue, 0)
  clock.advance(HOUR + 10 * MINUTE)
  await certificates.tick()
  t.ok(hasFailed(await managed.get('reserved_domain', id)), 'the renewal has failed')
  t.equal(certificates.overdue, 0, 'it may succeed at the next attempt')
  clock.advance(1_000)
  t.equal(certificates.overdue, 1)
  await issue()
  t.equal(certificates.overdue, 0, 'renewed')
  clock.advance(3 * HOUR)
  t.equal(certificates.overdue, 1)
  await managed.update('reserved_domain', id, { certificate_management_policy: null })
  await certificates.tick()
  t.equal(certificates.overdue, 0, 'its user has ended the management')
})
