import t from 'tap'
import { buildRules } from '../../../src/features/waf/build-rules.js'
import { FolderRules, wafRules } from '../../../src/features/waf/rules.js'
import type { Flow } from '../../../src/flow/flow.js'
import { provide } from '../../../src/policy/services.js'
import { makeFlow } from '../../helpers/flow.js'
import { heldMemory } from '../../helpers/memory.js'
import { Kit, outcomeOf } from '../kit.js'
import { writeRules } from './crs-like.js'

const silent = { info: () => undefined, error: () => undefined }
const REQUESTS = 100

t.test(
  'a request in which a rule matches keeps its matches until its end, and not all that was examined',
  async (t) => {
    const rules = await FolderRules.open({ rules: writeRules(t.testdir()), skip_unknown: false }, silent, buildRules)
    if (rules === undefined) throw new Error('no rules')
    t.teardown(() => rules.close())
    const kit = new Kit('none', { more: [provide(wafRules, rules)] })
    const phase = kit.waiting([['owasp-crs-request', { process_body: true, body_limit: '64KiB' }]])
    const body = Buffer.from(`q=${'A%42'.repeat(12_000)}`)
    const headers = ['Content-Type', 'application/x-www-form-urlencoded', 'User-Agent', 'a scanner']
    const flows: Flow[] = []
    const examine = async () => {
      const flow = makeFlow({ method: 'POST', headers, body })
      t.equal(outcomeOf(await phase(flow)), 'goes on')
      flows.push(flow)
    }
    for (let i = 0; i < REQUESTS; i++) await examine()
    flows.length = 0
    const before = heldMemory()
    for (let i = 0; i < REQUESTS; i++) await examine()
    const each = (heldMemory() - before) / REQUESTS
    t.ok(each < 16_384, `${Math.round(each)} bytes of each request`)
    t.same(kit.read('actions.service.owasp_crs_request.matched_rules[0].id', flows[0] as Flow), 913100)
  }
)
