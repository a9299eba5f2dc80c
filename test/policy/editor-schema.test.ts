import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import Schema from 'typebox/schema'
import { parse } from 'yaml'
import { offline, policyServices } from '../../src/app/services.js'
import { actions } from '../../src/features/registry.js'
import type { Phase } from '../../src/flow/flow.js'
import { compilePolicy } from '../../src/policy/compile.js'
import { policySchema } from '../../src/policy/json-schema.js'
import { fixture, projectFile } from '../helpers/files.js'
import { bad, good, type Sample, unsayable } from './editor-samples.js'

const schema = policySchema(actions)
const services = policyServices(offline(actions))
const keep = { keep: <T>(key: readonly unknown[], make: (identity: string) => T) => make(JSON.stringify(key)) }

function check(text: string): readonly string[] {
  const { problems } = compilePolicy(text, { owner: 'test', services, keep, actions, unavailable: 'warn' })
  return problems.filter(({ severity }) => severity === 'error').map(({ code, message }) => `${code}: ${message}`)
}

/** A document of one action. */
function documentOf([type, config, phase = 'on_http_request']: Sample): Record<string, unknown> {
  return { [phase satisfies Phase]: [{ actions: [config === undefined ? { type } : { type, config }] }] }
}

function judged(sample: Sample) {
  const text = JSON.stringify(documentOf(sample))
  const [valid, errors] = Schema.Errors(schema, parse(text))
  return { text, errors: check(text), valid, why: JSON.stringify(errors[0]) }
}

t.test('what check takes, the schema for editors takes', async (t) => {
  for (const sample of good) {
    const { text, errors, valid, why } = judged(sample)
    t.same(errors, [], text)
    t.ok(valid, `${text} ${why}`)
  }
})

t.test('what check refuses, the schema for editors refuses', async (t) => {
  for (const sample of bad) {
    const { text, errors, valid } = judged(sample)
    t.not(errors.length, 0, text)
    t.notOk(valid, `${text} ${errors.join()}`)
  }
  t.ok(good.length + bad.length >= 120)
})

t.test('what a schema cannot say is known by reason', async (t) => {
  for (const [reason, samples] of Object.entries(unsayable)) {
    for (const sample of samples) {
      const { text, errors, valid } = judged(sample)
      t.not(errors.length, 0, text)
      t.ok(valid, `${reason}: ${text} can be said after all`)
    }
  }
})

/** Problems that stand in the content of a text: expressions, templates, patterns, certificates, secrets. */
const OF_CONTENT = /^(?:EXPRESSION_|TEMPLATE_|REGEX_|DOCUMENT_)/

t.test('the policies that are shipped are taken by both', async (t) => {
  const folder = projectFile('config/policies/')
  const files = readdirSync(folder).filter((file) => file.endsWith('.yaml'))
  t.ok(files.length > 0)
  for (const file of files) {
    const text = readFileSync(new URL(file, folder), 'utf8')
    t.same(check(text), [], file)
    t.ok(Schema.Check(schema, parse(text)), file)
  }
})

t.test('published documents get one verdict from both', async (t) => {
  const folder = fixture('policies/')
  const published = JSON.parse(readFileSync(new URL('published.json', folder), 'utf8')) as { file: string }[]
  for (const { file } of published) {
    const text = readFileSync(new URL(`published/${file}`, folder), 'utf8')
    const errors = check(text)
    const sayable = errors.filter((error) => !OF_CONTENT.test(error))
    const [valid, why] = Schema.Errors(schema, parse(text))
    t.equal(valid, sayable.length === 0, `${file} ${sayable.join()} ${JSON.stringify(why[0])}`)
  }
})
