import { readFileSync } from 'node:fs'
import t from 'tap'
import { offline, policyServices } from '../../src/app/services.js'
import { actions } from '../../src/features/registry.js'
import { compilePolicy } from '../../src/policy/compile.js'
import { RecentDocuments, readDocument } from '../../src/policy/document.js'
import { fixture } from '../helpers/files.js'

const published = JSON.parse(readFileSync(fixture('policies/published.json'), 'utf8')) as { readonly file: string }[]

t.test('a text is read once for each kind of carrier', async (t) => {
  const documents = new RecentDocuments()
  const text = 'inbound: [{ actions: [{ type: deny }] }]'
  const read = documents.read(text)
  t.equal(documents.read(text, 'http'), read)
  t.not(documents.read(text, 'tcp'), read)
  t.equal(documents.read(text).document.phases.on_http_request.length, 1)
  t.equal(documents.read(text, 'tcp').document.phases.on_tcp_connect.length, 1)
})

t.test('what is remembered has a bound', async (t) => {
  const documents = new RecentDocuments()
  const large = `# ${'x'.repeat(500_000)}\non_http_request: []`
  t.not(documents.read(large), documents.read(large), 'one text does not push out all others')
  const first = documents.read('on_http_request: []')
  for (let index = 0; index < 5; index++) documents.read(`# ${index}${'x'.repeat(200_000)}`)
  t.not(documents.read('on_http_request: []'), first, 'many large ones push it out')
  const second = documents.read('on_http_request: []')
  for (let index = 0; index < 100; index++) documents.read(`# ${index}`)
  t.not(documents.read('on_http_request: []'), second, 'and so do very many small ones')
})

t.test('compiling leaves a document as it was read, and finds the same again', async (t) => {
  const services = policyServices(offline(actions))
  const keep = { keep: <T>(key: readonly unknown[], make: (identity: string) => T) => make(JSON.stringify(key)) }
  const compile = (text: string) =>
    compilePolicy(text, { owner: 'test', services, keep, actions, unavailable: 'warn' }).problems
  for (const { file } of published) {
    const text = readFileSync(fixture(`policies/published/${file}`), 'utf8')
    const once = compile(text)
    t.same(services.documents.read(text), readDocument(text), file)
    t.same(compile(text), once, file)
  }
})
