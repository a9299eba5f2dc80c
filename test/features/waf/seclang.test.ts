import t from 'tap'
import { readRuleSet } from '../../../src/features/waf/seclang/reader.js'
import { type Rule, RuleSetError } from '../../../src/features/waf/seclang/rule.js'
import { compileRules, evaluate, matchedIds } from './rules.js'

const read = (text: string) => readRuleSet([{ name: 'a.conf', text }])
const rulesOf = (text: string) => read(text).items.filter((item) => !('marker' in item)) as Rule[]
const problemsOf = (text: string): readonly string[] => {
  try {
    read(text)
    return []
  } catch (error) {
    if (error instanceof RuleSetError) return error.problems
    throw error
  }
}

t.test('directives may span lines, and quotes protect their text', async (t) => {
  const [rule] = rulesOf(`# a comment
SecRule ARGS|!ARGS:note|&REQUEST_HEADERS:X-A \\
    "@rx say \\"hello\\"\\s+#" \\
    "id:1,\\
    phase:1,\\
    deny,\\
    status:418,\\
    t:none,t:lowercase,\\
    msg:'It\\'s one, or two: %{TX.0}',\\
    tag:'a/b',\\
    setvar:'tx.score=+%{tx.five}'"
`)
  t.match(rule, {
    id: 1,
    phase: 1,
    place: { file: 'a.conf', line: 2 },
    test: {
      operator: { name: 'rx', negated: false, argument: 'say "hello"\\s+#' },
      transformations: ['lowercase'],
      variables: [
        { collection: 'ARGS', key: undefined, kind: 'values' },
        { collection: 'ARGS', key: 'note', kind: 'excluded' },
        { collection: 'REQUEST_HEADERS', key: 'x-a', kind: 'count' }
      ]
    },
    effects: {
      disruption: 'deny',
      status: 418,
      assignments: [{ name: 'score', how: 'add', value: '%{tx.five}' }]
    },
    report: { message: "It's one, or two: %{TX.0}", tags: ['a/b'] }
  })
})

t.test('defaults of a phase hold until t:none', async (t) => {
  const defaults = 'SecDefaultAction "phase:2,deny,nolog,t:lowercase"\n'
  const [first, second] = rulesOf(`${defaults}
SecRule ARGS "a" "id:1,phase:2,t:urlDecode"
SecRule ARGS "!@streq a" "id:2,phase:2,pass,log,t:none,t:trim"`)
  t.same(first?.test.transformations, ['lowercase', 'urlDecode'])
  t.match(first, { test: { operator: { name: 'rx' } }, effects: { disruption: 'deny' }, report: { logs: false } })
  t.same(second?.test.transformations, ['trim'])
  t.match(second, {
    test: { operator: { name: 'streq', negated: true } },
    effects: { disruption: 'pass' },
    report: { logs: true }
  })
})

t.test('later directives remove rules and change their variables', async (t) => {
  const rules = rulesOf(`
SecRule ARGS "a" "id:1"
SecRule ARGS "a" "id:2,tag:'old'"
SecRule ARGS "a" "id:3"
SecRule ARGS "a" "id:10"
SecRuleRemoveById 1 9-11
SecRuleRemoveByTag old
SecRuleUpdateTargetById 3 "!ARGS:/^x|y$/"`)
  t.same(
    rules.map(({ id }) => id),
    [3]
  )
  t.match(rules[0]?.test.variables[1], { collection: 'ARGS', pattern: '(?i)^x|y$', kind: 'excluded' })
})

t.test('mistakes are told with file and line', async (t) => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ['\nSecFancy On', /^a\.conf:2: the directive SecFancy is not known$/],
    ['SecRule ARGS "@rx a" "phase:1"', /^a\.conf:1: the rule has no id$/],
    ['SecRule NOTHING "a" "id:1"', /the variable NOTHING is not known/],
    ['SecRule REQUEST_METHOD:x "a" "id:1"', /REQUEST_METHOD has no members/],
    ['SecRule ARGS "a" "id:1,exec:/bin/sh"', /the action exec is not known/],
    ['SecRule ARGS "a" "id:1,ctl:unknown=On"', /ctl:unknown is not known/],
    ['SecRule ARGS "a" "id:1,setvar:env.x=1"', /only variables of TX are/],
    ['SecRule ARGS "a" "id:1,phase:7"', /the phase is 7/],
    ['SecRule ARGS "a', /a double quote is not closed/],
    ['SecRule ARGS "a" "id:1,msg:\'x"', /a single quote in the actions is not closed/],
    ['SecRule ARGS "a" "id:1,chain"\nSecMarker X', /SecMarker stands inside of a chain/],
    ['SecRule ARGS "a" "id:1,chain"', /the chain has no further rule/],
    ['SecRule ARGS "a" "id:1"\nSecRule ARGS "b" "id:1"', /^a\.conf:2: the id 1 is also that of the rule at a\.conf:1$/],
    ['SecRule XML:/a/b "a" "id:1"', /only XML:\/\* and XML:\/\/@\* are/]
  ]
  for (const [text, expected] of cases) t.match(problemsOf(text), [expected], text)
  const two = problemsOf('SecA\nSecB')
  t.equal(two.length, 2, 'all mistakes at once')
})

t.test('operators, transformations and data files are checked when rules are compiled', async (t) => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ['SecRule ARGS "@fuzzyHash a" "id:1"', /^test\.conf:1: the operator @fuzzyHash is not known$/],
    ['SecRule ARGS "@rx a" "id:1,t:rot13"', /the transformation rot13 is not known/],
    ['SecRule ARGS "@rx (?=a)" "id:1"', /look-ahead/],
    ['SecRule ARGS "@pmFromFile none.data" "id:1"', /the data file none\.data does not exist/],
    ['SecRule ARGS "@lt many" "id:1"', /is not a whole number/],
    ['SecRule REMOTE_ADDR "@ipMatch 1.2.3" "id:1"', /neither an address nor a network/],
    ['SecRule ARGS "@validateByteRange 1-999" "id:1"', /1-999/]
  ]
  for (const [text, expected] of cases) t.throws(() => compileRules(text), { message: expected }, text)
})

t.test('unknown rules can be left out, with their chains', async (t) => {
  const rules = compileRules(
    `SecFancy On
SecRule ARGS "@rx a" "id:1,phase:1"
SecRule ARGS "@fuzzyHash a" "id:2,phase:1,chain"
  SecRule ARGS "@rx a"
SecRule NOTHING "@rx a" "id:3,phase:1,chain"
  SecRule ARGS "@rx b" "chain"
  SecRule ARGS "@rx c"
SecRule ARGS "@rx a" "id:4,phase:1"`,
    {},
    true
  )
  t.equal(rules.size, 2)
  t.equal(rules.skipped.length, 3)
  t.same(matchedIds(evaluate(rules, { target: '/?q=a' })), [1, 4])
})

t.test('writes to persistent collections have no effect', (t) => {
  const text = 'SecAction "id:1,phase:1,setvar:ip.count=+1,expirevar:ip.count=60,setvar:tx.a=1"'
  t.same(problemsOf(text), [])
  const [rule] = readRuleSet([{ name: 'test.conf', text }]).items
  t.match(rule, { effects: { assignments: [{ name: 'a', how: 'set', value: '1' }] } })
  t.match(problemsOf('SecRule IP:count "@gt 5" "id:2"'), [/the variable IP is not known/])
  t.end()
})
