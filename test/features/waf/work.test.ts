import t, { type Test } from 'tap'
import { buildRules } from '../../../src/features/waf/build-rules.js'
import { FolderRules, wafRules } from '../../../src/features/waf/rules.js'
import { provide } from '../../../src/policy/services.js'
import { makeFlow } from '../../helpers/flow.js'
import { Kit, outcomeOf } from '../kit.js'
import { writeRules } from './crs-like.js'

const silent = { info: () => undefined, error: () => undefined }

/** Rules that read all values, each with a pattern of its own. */
const MORE = Array.from(
  { length: 20 },
  (_, i) =>
    `SecRule ARGS|REQUEST_BODY "@rx x${i}[yz]+q" "id:${930_000 + i},phase:2,block,t:none,t:lowercase,msg:'${i}'"`
).join('\n')

/** Returns an action whose clock moves by some milliseconds whenever it is read. */
async function setUp(t: Test, { each, config = {} }: { readonly each: number; readonly config?: object }) {
  const folder = writeRules(t.testdir(), MORE)
  const rules = await FolderRules.open({ rules: folder, skip_unknown: false }, silent, buildRules)
  if (rules === undefined) throw new Error('no rules')
  t.teardown(() => rules.close())
  const kit = new Kit('none', { more: [provide(wafRules, rules)] })
  const { clock } = kit
  clock.monotonic = () => {
    clock.now += each
    return clock.now
  }
  const phase = kit.waiting([['owasp-crs-request', { process_body: true, body_limit: '128KiB', ...config }]])
  return async (body: string) => {
    const type = ['Content-Type', 'application/x-www-form-urlencoded']
    const flow = makeFlow({ method: 'POST', headers: type, body: Buffer.from(body) })
    const outcome = outcomeOf(await phase(flow))
    const read = (field: string) => kit.read(`actions.service.owasp_crs_request.${field}`, flow)
    return { outcome, read }
  }
}

/** Beginnings of all patterns, which end with another letter. */
const BEGINNINGS = Array.from({ length: 20 }, (_, i) => `x${i}yzr `).join('')

/** A form with one value in which each rule has to look for its pattern. */
const form = (length: number) => `q=${BEGINNINGS.repeat(Math.floor(length / BEGINNINGS.length))}`

t.test('a long text is examined for 50 ms of work at most, then on_error decides', async (t) => {
  const halting = await setUp(t, { each: 20 })
  const late = await halting(form(65_536))
  t.equal(late.outcome, '503 WAF_WORK_EXCEEDED')
  t.equal(late.read('decision'), 'allow')
  t.equal(late.read('error.code'), 'WAF_WORK_EXCEEDED')
  t.match(late.read('error.message'), /more work than one message may/)
  const continuing = await setUp(t, { each: 20, config: { on_error: 'continue' } })
  const passed = await continuing(form(65_536))
  t.equal(passed.outcome, 'goes on')
  t.equal(passed.read('error.code'), 'WAF_WORK_EXCEEDED')
})

t.test('neither a long text that takes less, nor a short one that waits for a busy machine, is refused', async (t) => {
  const quick = await setUp(t, { each: 0.1 })
  t.equal((await quick(form(65_536))).outcome, 'goes on')
  const busy = await setUp(t, { each: 1_000 })
  t.equal((await busy(form(8_000))).outcome, 'goes on')
  t.equal((await busy(`${form(8_000)}&p=<script`)).outcome, '403 WAF_REQUEST_DENIED')
})

t.test('other work of the thread runs while a long text is examined', async (t) => {
  const run = await setUp(t, { each: 0.5 })
  let turns = 0
  let isDone = false
  const count = () => {
    if (isDone) return
    turns++
    setImmediate(count)
  }
  setImmediate(count)
  t.equal((await run(form(65_536))).outcome, 'goes on')
  isDone = true
  t.ok(turns >= 2, `${turns} turns of the event loop`)
})
