import t from 'tap'

import { compileRules, evaluate, matchedIds } from './rules.js'

t.test('a chain matches if all of its links do, and MATCHED_VARS has the values of all of them', async (t) => {
  const rules = compileRules(`
SecRule ARGS "@rx ^(\\w+)-(\\w+)$" "id:1,phase:2,capture,t:none,t:lowercase,chain,logdata:'%{TX.2} in %{MATCHED_VAR_NAME}'"
  SecRule TX:1 "@streq one" "chain"
  SecRule MATCHED_VARS "@contains two" "setvar:tx.found=+1"`)
  t.match(evaluate(rules, { target: '/?a=ONE-two&b=x' }).reported, [
    {
      ...{ id: 1, message: '', severity: '', data: 'two in ARGS:a', variable: 'ARGS:a' },
      sources: [{ target: { value: 'one-two' }, transformations: ['lowercase'], score: 0 }],
      score: 0
    }
  ])
  t.equal(evaluate(rules, { target: '/?a=ONE-two' }).getTx('found'), '1')
  t.same(matchedIds(evaluate(rules, { target: '/?a=two-one' })), [])
  t.same(matchedIds(evaluate(rules, { target: '/?a=one-three' })), [])
})

t.test('setvar runs once for each value that matches', async (t) => {
  const rules = compileRules(`
SecAction "id:1,phase:1,nolog,pass,setvar:tx.five=5,setvar:'tx.gone=1',setvar:!tx.gone"
SecRule ARGS "@rx ^bad" "id:2,phase:2,setvar:'tx.score=+%{tx.five}',setvar:'tx.name_%{MATCHED_VAR_NAME}=yes',setvar:tx.left=-1"`)
  const transaction = evaluate(rules, { target: '/?a=bad&b=good&c=bad2' })
  t.equal(transaction.getTx('score'), '10')
  t.equal(transaction.getTx('left'), '-2')
  t.equal(transaction.getTx('name_args:c'), 'yes')
  t.equal(transaction.getTx('gone'), undefined)
})

t.test('a joined test finds what single tests find, and no more', async (t) => {
  const anchored = compileRules('SecRule ARGS "@rx ^b.d$" "id:1,phase:2"')
  t.same(matchedIds(evaluate(anchored, { target: '/?a=x&b=bad&c=y' })), [1])
  t.same(matchedIds(evaluate(anchored, { target: '/?a=x&b=badly&c=y' })), [])
  const crossing = compileRules('SecRule ARGS "@rx x.y" "id:1,phase:2"')
  t.same(matchedIds(evaluate(crossing, { target: '/?a=x&b=y' })), [], 'values are not one text')
  const whole = compileRules('SecRule ARGS "@rx \\Abad\\z" "id:1,phase:2"')
  t.same(matchedIds(evaluate(whole, { target: '/?a=x&b=bad' })), [1])
  const negated = compileRules('SecRule ARGS "!@rx ^\\d+$" "id:1,phase:2"')
  t.same(matchedIds(evaluate(negated, { target: '/?a=1&b=2' })), [])
  t.same(matchedIds(evaluate(negated, { target: '/?a=1&b=2x' })), [1])
  t.same(matchedIds(evaluate(negated, { target: '/' })), [], 'no value, no match')
})

t.test('variables: counts, exclusions, patterns for names, and any case', async (t) => {
  const rules = compileRules(`
SecRule &ARGS "@gt 2" "id:1,phase:2"
SecRule &ARGS:a "@eq 2" "id:2,phase:2"
SecRule ARGS|!ARGS:SAFE "@contains bad" "id:3,phase:2"
SecRule REQUEST_HEADERS:/^x-t/ "@streq yes" "id:4,phase:1"
SecRule REQUEST_COOKIES:session|REQUEST_COOKIES_NAMES "@contains bad" "id:5,phase:1"
SecRule REQUEST_HEADERS:User-Agent "@pm curl wget" "id:6,phase:1,capture,logdata:'%{TX.0}'"
SecRule &REQUEST_HEADERS:Accept "@eq 0" "id:7,phase:1"`)
  const run = (target: string, ...headers: string[]) =>
    matchedIds(evaluate(rules, { target, headers: ['Accept', '*/*', ...headers] }))
  t.same(run('/?a=1&a=2&b=3'), [1, 2])
  t.same(run('/?safe=bad'), [])
  t.same(run('/?other=bad'), [3])
  t.same(run('/', 'X-Test', 'yes', 'x-other', 'yes'), [4])
  t.same(run('/', 'Cookie', 'session=bad; a=b'), [5])
  t.same(run('/', 'cookie', 'a=bad; session=b'), [])
  t.same(run('/', 'user-AGENT', 'a WGET b'), [6])
  t.same(matchedIds(evaluate(rules)), [7])
})

t.test('parts of the request have their forms', async (t) => {
  const rules = compileRules(`
SecRule REQUEST_FILENAME "@streq /a b/c+d.php" "id:1,phase:1"
SecRule REQUEST_BASENAME "@streq c+d.php" "id:2,phase:1"
SecRule REQUEST_URI "@streq /a%20b/c+d.php?x=%41" "id:3,phase:1"
SecRule REQUEST_URI_RAW "@beginsWith https://app.example.com/" "id:4,phase:1"
SecRule REQUEST_LINE "@endsWith HTTP/1.1" "id:5,phase:1"
SecRule ARGS_GET "@streq A" "id:6,phase:1"
SecRule QUERY_STRING "@streq x=%41" "id:7,phase:1"
SecRule REMOTE_ADDR "@ipMatch 192.0.2.0/24,2001:db8::/32" "id:8,phase:1"
SecRule REQUEST_METHOD "@within GET,HEAD" "id:9,phase:1"`)
  t.same(
    matchedIds(evaluate(rules, { target: 'https://app.example.com/a%20b/c+d.php?x=%41' })),
    [1, 2, 3, 4, 5, 6, 7, 8, 9]
  )
})

t.test('bodies are read by their media type, and their text is kept where rules ask for it', async (t) => {
  const rules = compileRules(`
SecRule REQUEST_HEADERS:X-Force "@streq yes" "id:1,phase:1,nolog,ctl:forceRequestBodyVariable=On"
SecRule REQUEST_HEADERS:X-Form "@streq yes" "id:2,phase:1,nolog,ctl:requestBodyProcessor=URLENCODED"
SecRule ARGS:json.a.1 "@streq bad" "id:3,phase:2"
SecRule ARGS_POST:q "@streq bad" "id:4,phase:2"
SecRule REQUEST_BODY "@contains bad" "id:5,phase:2"
SecRule XML:/* "@contains bad" "id:6,phase:2"
SecRule XML://@* "@streq worse" "id:7,phase:2"
SecRule FILES "@endsWith .php" "id:8,phase:2"`)
  const run = (type: string, body: string, ...more: string[]) =>
    matchedIds(evaluate(rules, { method: 'POST', headers: ['Content-Type', type, ...more], body }))
  t.same(run('application/json', '{"a":["x","bad"]}'), [3])
  t.same(run('application/x-www-form-urlencoded', 'q=bad'), [4, 5])
  t.same(run('text/xml', '<a b="worse">bad</a>'), [6, 7])
  t.same(run('text/plain', 'q=bad'), [])
  t.same(run('text/plain', 'q=bad', 'X-Force', 'yes'), [5])
  t.same(run('text/plain', 'q=bad', 'X-Form', 'yes'), [4, 5])
  const part = 'Content-Disposition: form-data; name="f"; filename="a.php"\r\n\r\nx'
  t.same(run('multipart/form-data; boundary=b', `--b\r\n${part}\r\n--b--\r\n`), [8])
  t.same(run('application/json', '{"a": bad'), [5], 'text that cannot be read is examined as text')
})

t.test('skipAfter goes on behind the marker, of the same phase only', async (t) => {
  const rules = compileRules(`
SecRule ARGS:skip "@streq 1" "id:1,phase:1,nolog,skipAfter:END"
SecAction "id:2,phase:1"
SecAction "id:3,phase:2"
SecMarker END
SecAction "id:4,phase:1"
SecRule ARGS:skip "@streq 2" "id:5,phase:2,nolog,skipAfter:NOWHERE"
SecAction "id:6,phase:2"`)
  t.same(matchedIds(evaluate(rules)), [2, 4, 3, 6])
  t.same(matchedIds(evaluate(rules, { target: '/?skip=1' })), [4, 3, 6])
  t.same(matchedIds(evaluate(rules, { target: '/?skip=2' })), [2, 4, 3])
})

t.test('rules remove rules and values while a request is handled', async (t) => {
  const rules = compileRules(`
SecRule REQUEST_FILENAME "@streq /a" "id:1,phase:1,nolog,ctl:ruleRemoveById=10-11"
SecRule REQUEST_FILENAME "@streq /b" "id:2,phase:1,nolog,ctl:ruleRemoveByTag=strict"
SecRule REQUEST_FILENAME "@streq /c" "id:3,phase:1,nolog,ctl:ruleRemoveTargetById=10;ARGS:q"
SecRule REQUEST_FILENAME "@streq /d" "id:4,phase:1,nolog,ctl:ruleRemoveTargetByTag=strict;ARGS:/^q/"
SecRule REQUEST_FILENAME "@streq /e" "id:5,phase:1,nolog,ctl:ruleEngine=Off"
SecRule ARGS "@contains bad" "id:10,phase:2"
SecRule ARGS "@contains bad" "id:11,phase:2,tag:strict"`)
  const run = (target: string) => matchedIds(evaluate(rules, { target }))
  t.same(run('/?q=bad'), [10, 11])
  t.same(run('/a?q=bad'), [])
  t.same(run('/b?q=bad'), [10])
  t.same(run('/c?q=bad'), [11])
  t.same(run('/c?r=bad'), [10, 11])
  t.same(run('/d?q1=bad'), [10])
  t.same(run('/e?q=bad'), [])
})

t.test('multiMatch tests a value before and after its transformations', async (t) => {
  const rules = compileRules(`
SecRule ARGS "@streq %41" "id:1,phase:2,t:none,t:urlDecode,multiMatch"
SecRule ARGS "@streq A" "id:2,phase:2,t:none,t:urlDecode,multiMatch"
SecRule ARGS "@streq a" "id:3,phase:2,t:none,t:urlDecode,t:lowercase,multiMatch"`)
  t.same(matchedIds(evaluate(rules, { target: '/?q=%2541' })), [1, 2, 3])
})

const LEVELS = `
SecRule &TX:blocking_paranoia_level "@eq 0" "id:1,phase:1,nolog,setvar:tx.blocking_paranoia_level=1"
SecRule &TX:detection_paranoia_level "@eq 0" "id:2,phase:1,nolog,setvar:'tx.detection_paranoia_level=%{TX.blocking_paranoia_level}'"
SecRule TX:DETECTION_PARANOIA_LEVEL "@lt 1" "id:3,phase:2,nolog,skipAfter:END"
SecAction "id:10,phase:2"
SecRule TX:DETECTION_PARANOIA_LEVEL "@lt 2" "id:4,phase:2,nolog,skipAfter:END"
SecAction "id:20,phase:2"
SecRule TX:DETECTION_PARANOIA_LEVEL "@lt 3" "id:5,phase:2,nolog,skipAfter:END"
SecAction "id:30,phase:2"
SecMarker END
SecAction "id:40,phase:2"`

t.test('paranoia levels leave out rules when the plan is made', async (t) => {
  const rules = compileRules(LEVELS)
  const at = (level?: number) => matchedIds(evaluate(rules, level === undefined ? {} : { level }))
  t.same(at(), [10, 40])
  t.same(at(1), [10, 40])
  t.same(at(2), [10, 20, 40])
  t.same(at(4), [10, 20, 30, 40])
  t.ok(rules.plan(1).size < rules.plan(4).size, 'rules of higher levels are not evaluated')
  t.equal(rules.plan(2), rules.plan(2), 'one plan for a level')
  const set = compileRules(`SecAction "id:900,phase:1,nolog,setvar:tx.blocking_paranoia_level=3"${LEVELS}`)
  t.same(matchedIds(evaluate(set)), [10, 20, 30, 40], 'the level of the set-up file')
  t.same(matchedIds(evaluate(set, { level: 1 })), [10, 40], 'the chosen level counts more')
  const depends = compileRules(
    `SecRule ARGS:p "@streq 2" "id:900,phase:1,nolog,setvar:tx.blocking_paranoia_level=2"${LEVELS}`
  )
  t.same(matchedIds(evaluate(depends, { target: '/?p=2' })), [10, 20, 40], 'a level that depends on the request')
  t.same(matchedIds(evaluate(depends)), [10, 40])
})

t.test('responses have variables of their own', async (t) => {
  const rules = compileRules(`
SecRule RESPONSE_STATUS "@rx ^5" "id:1,phase:3"
SecRule RESPONSE_HEADERS:X-Powered-By "@contains PHP" "id:2,phase:3"
SecRule RESPONSE_BODY "@contains stack trace" "id:3,phase:4,deny,status:502"`)
  const transaction = evaluate(rules, {
    response: { status: 500, headers: ['x-powered-by', 'PHP/8'], body: 'a stack trace' }
  })
  t.same(matchedIds(transaction), [1, 2, 3])
  t.same(transaction.denied, { id: 3, status: 502 })
})

t.test('a denial ends the evaluation', async (t) => {
  const rules = compileRules(
    'SecAction "id:1,phase:1,deny,status:406"\nSecAction "id:2,phase:1"\nSecAction "id:3,phase:2"'
  )
  t.same(matchedIds(evaluate(rules)), [1])
})

const EXCEEDED = { message: 'the request takes more work than it may' }

t.test('work is limited', async (t) => {
  const rules = compileRules('SecRule ARGS "@rx (?:a|b)+c" "id:1,phase:2,t:none,t:urlDecode"')
  t.throws(() => evaluate(rules, { target: `/?q=${'a'.repeat(2_000)}`, budget: 3_000 }), EXCEEDED)
  const names = compileRules(
    `SecRule ARGS "@unconditionalMatch" "id:1,phase:2,nolog,setvar:'tx.%{MATCHED_VAR_NAME}=1'"`
  )
  const many = Array.from({ length: 5_000 }, (_, i) => `a${i}=1`).join('&')
  t.throws(() => evaluate(names, { target: `/?${many}`, budget: 1e9 }), EXCEEDED, 'names of a client do not fill TX')
})

t.test('groups of a match in a long value are found near its end', async (t) => {
  const rules = compileRules(`SecRule ARGS "@rx k(\\d+)v" "id:1,phase:2,capture,logdata:'%{TX.1}'"`)
  const value = `${'x'.repeat(50_000)}k42v${'y'.repeat(50_000)}`
  t.equal(evaluate(rules, { target: `/?q=${value}`, budget: 10_000_000 }).reported[0]?.data, '42')
})
