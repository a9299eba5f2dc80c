import t from 'tap'
import { documentedFunctions } from '../../src/expression/catalogue.js'
import { functionMeanings, functionName } from '../../src/expression/meanings/meaning.js'
import { sampleExpressions, sampleFlow } from './sample-flow.js'

const expressions = sampleExpressions()
/** The flow that the reference names. */
const flow = sampleFlow({
  target: '/search?q=cats',
  headers: ['X-Tier', 'gold', 'Cookie', 'session=abc'],
  response: { headers: ['Content-Type', 'text/plain', 'Set-Cookie', 'seen=1'] }
})

t.test('every function has a meaning, and every meaning a function', async (t) => {
  const names = documentedFunctions({ random: () => 0 }).map(({ signature }) => functionName(signature))
  t.same([...functionMeanings.keys()].sort(), [...new Set(names)].sort())
})

t.test('the example of a function calls it and has the value that is written there', async (t) => {
  for (const [name, [, example, value]] of functionMeanings) {
    t.ok(example.includes(`${name.split('.').pop()}(`), `${name}: ${example}`)
    const compiled = expressions.expression(example, 'on_http_response')
    if (compiled.ok) t.equal(JSON.stringify(expressions.dataOf(compiled.value.evaluate(flow))), value, example)
    else t.fail(`${example}: ${compiled.problems.map(({ message }) => message).join()}`)
  }
})
