import t from 'tap'
import { accountFamilies } from './reference/account-rows.js'
import { keepingFamilies } from './reference/keeping-rows.js'
import { liveFamilies } from './reference/live-rows.js'
import { runFamilies } from './reference/published.js'
import { python, pythonJson } from './reference/python.js'
import { operationsOf, operationsOfModule, prepareModules, runModule } from './reference/runner.js'
import { openStage } from './reference/stage.js'
import { moduleBefore, modules, trafficFamilies } from './reference/traffic-rows.js'

// A table that follows the source of the reference's Python client; the client itself does not run.
const families = [...accountFamilies, ...keepingFamilies, ...trafficFamilies, ...liveFamilies].filter(
  ({ name }) => name !== 'kubernetes_operators'
)

for (const half of [families.slice(0, 22), families.slice(22)]) {
  t.test('every call of the Python client, with its zero values, works', async (t) => {
    await runFamilies(t, await openStage(t, python), half)
  })
}

t.test('every call of the Python client to a module works', async (t) => {
  const stage = await openStage(t, python)
  const saved = await prepareModules(stage, moduleBefore)
  for (const module of modules) await runModule(t, stage, module, saved)
  t.same(stage.faults, [])
})

t.test('the table has all methods of the client', async (t) => {
  const calls = [...families.flatMap(operationsOf), ...modules.flatMap(operationsOfModule)]
  t.equal(new Set(calls).size, 241)
})

t.test('bodies have the bytes that Python writes', async (t) => {
  t.equal(
    pythonJson({ a: ['é', 1, 0.2], b: { c: null, d: true }, e: '"\n' }),
    '{"a": ["\\u00e9", 1, 0.2], "b": {"c": null, "d": true}, "e": "\\"\\n"}'
  )
  t.equal(pythonJson({ a: '😀' }), '{"a": "\\ud83d\\ude00"}')
})

t.test('a module without a body is refused with a clear error', async (t) => {
  const { client, make } = await openStage(t, python)
  const edge = await make('/edges/https', {})
  const path = `/edges/https/${edge.id}/tls_termination`
  const call = { family: 'https_edge_tls_termination_module', verb: 'replace', method: 'PUT', path } as const
  const { status, json } = await client.call(call)
  t.equal(status, 400)
  t.match(json, { error_code: /^ERR_SLUICE_/, status_code: 400 })
})
