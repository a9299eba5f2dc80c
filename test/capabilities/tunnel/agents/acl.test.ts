import t from 'tap'
import { BindRules } from '../../../../src/capabilities/tunnel/server/authority.js'
import { addressText, readAddress, readHost } from '../../../../src/capabilities/tunnel/server/binding.js'
import { FORMS } from '../../../../src/schema/formats.js'
import { random as seeded, whole } from '../../../features/rate-limit/limiter/support/random.js'

const seed = Number(process.env.TEST_SEED ?? 20_261_122)
const PIECES = ['*', '*.', 'app', 'web', '.', '=', ':', '443', '5000', 'test', 'internal', '[::1]', '1', ' ', 'A', '-']

/** What an agent would ask for to make use of a rule that names `target`. */
function wished(target: string, rules: BindRules): boolean {
  if (target.includes('=')) {
    const [key = '', value = ''] = target.split('=').map((side) => (side === '*' ? 'any' : side))
    return rules.allowsLabels({ [key]: value })
  }
  const address = readAddress(`tcp://${target}`)
  if (address !== undefined) return rules.allowsAddress(addressText(address))
  const host = readHost(target.replace(/^\*\./, 'a.b.'))
  return host !== undefined && rules.allowsDomain(host)
}

t.test(`every rule that is stored allows something, and only what it says (TEST_SEED=${seed})`, async (t) => {
  const random = seeded(seed)
  let stored = 0
  for (let n = 0; n < 60_000; n++) {
    const pieces = Array.from({ length: whole(random, 1, 5) }, () => PIECES[whole(random, 0, PIECES.length - 1)])
    const read = FORMS.acl_rule(`bind:${pieces.join('')}`)
    if (!read.ok) continue
    stored++
    const again = FORMS.acl_rule(read.text)
    const rules = new BindRules([read.text])
    const target = read.text.slice('bind:'.length)
    const right =
      again.ok &&
      again.text === read.text &&
      wished(target, rules) &&
      !rules.allowsAddress(undefined) &&
      !rules.allowsDomain('elsewhere.example.net') &&
      !rules.allowsDomain(target.replace(/^\*\./, '').replace(/^/, 'not'))
    if (!right) {
      t.fail(read.text)
      return
    }
  }
  t.ok(stored > 1_000, `${stored} rules`)
})
