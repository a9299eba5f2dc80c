import t from 'tap'
import type { ModuleScope } from '../../src/features/contract.js'
import { modules } from '../../src/features/registry.js'
import { NO_UNITS, offerTermination, type Termination, takeTermination } from '../../src/flow/flow.js'
import { makeFlow } from '../helpers/flow.js'
import { Kit } from './kit.js'

const kit = new Kit()
const scope: ModuleScope = {
  owner: 'edgtls_1',
  services: kit.services,
  service: kit.services.service,
  keep: (key, make) => make(JSON.stringify(key)),
  secret: () => undefined
}
const UNITS = { ...NO_UNITS, policy: () => undefined }
const TLS = { version: 'TLSv1.3', cipher: 'TLS_AES_128_GCM_SHA256', resumed: false }

/** The verdict of the module on a connection whose handshake ends like this; undefined result: no handshake is possible. */
async function ends(
  config: Readonly<Record<string, unknown>>,
  result?: Awaited<ReturnType<NonNullable<ReturnType<typeof takeTermination>>>>
) {
  const module = modules.find(({ name }) => name === 'tls_termination')
  const flow = makeFlow({ request: false })
  const asked: Termination[] = []
  if (result !== undefined) {
    offerTermination(flow, async (how) => {
      asked.push(how)
      return result
    })
  }
  const verdict = await module?.compile(config, scope).connect?.(flow, UNITS)
  return { verdict, asked, left: takeTermination(flow) }
}

t.test('the module tls_termination ends TLS once, as the edge says', async (t) => {
  const secure = { kind: 'secure', tls: TLS } as const
  const plain = await ends({ min_version: '1.2' }, secure)
  t.equal(plain.verdict, undefined)
  t.same(plain.asked, [{ minVersion: 'TLSv1.2', maxVersion: 'TLSv1.3' }])
  t.equal(plain.left, undefined, 'a policy cannot end it again')
  const mutual = await ends({ min_version: '1.3', authorities: ['ca_1'] }, secure)
  const clients = { authorities: ['ca_1'], must: 'verified' }
  t.same(mutual.asked, [{ minVersion: 'TLSv1.3', maxVersion: 'TLSv1.3', clients }])
  const nobody = await ends({ min_version: '1.2', authorities: [] }, secure)
  t.match(nobody.asked, [{ clients: { authorities: [], must: 'verified' } }], 'no authority vouches for nobody')
})

t.test('a connection whose TLS does not end is refused', async (t) => {
  const refused = { kind: 'respond', code: 'TLS_HANDSHAKE_FAILED' }
  t.match((await ends({ min_version: '1.2' }, { kind: 'failed', why: 'timeout' })).verdict, refused)
  t.match((await ends({ min_version: '1.2' })).verdict, refused)
})
