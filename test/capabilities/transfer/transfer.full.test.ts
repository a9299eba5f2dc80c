import t, { type Test } from 'tap'
import { accountText, readAccountText } from '../../../src/capabilities/transfer/command-account.js'
import type { AccountDocument, RecordEntry } from '../../../src/capabilities/transfer/document.js'
import { Records } from '../../../src/control/records.js'
import type { Sealer } from '../../../src/lib/seal.js'
import type { Store } from '../../../src/store/store.js'
import { idOf } from '../../resources/bench.js'
import { MARK } from '../../resources/bodies.js'
import { opened, operation } from '../../store/opened.js'
import {
  anything,
  comparable,
  everything,
  exported,
  type Ids,
  imported,
  newSealer,
  PASSPHRASE,
  refused
} from './transfers.js'

const LONG = process.env.SLUICE_TEST_LONG === '1'

interface Stand {
  readonly store: Store
  readonly seal: Sealer
}

async function empty(t: Test): Promise<Stand> {
  return { store: (await opened(t, ':memory:')).store, seal: newSealer() }
}

async function full(t: Test): Promise<Stand & { readonly ids: Ids }> {
  const stand = await empty(t)
  return { ...stand, ids: await everything(stand.store, stand.seal) }
}

/** A document that may be written over. */
// biome-ignore lint/suspicious/noExplicitAny: tests write into documents, also what does not belong there.
type Loose = any

const edited = (document: AccountDocument, edit: (loose: Loose) => void): AccountDocument => {
  const loose = structuredClone(document) as Loose
  edit(loose)
  return loose
}

/** What an export with secrets holds, the secrets opened. */
async function clear({ store, seal }: Stand): Promise<string> {
  const records = new Records(seal)
  const document = await exported(store, { seal })
  const all: unknown[] = []
  for (const [kind, entries] of Object.entries(document.records)) {
    for (const { id } of entries) {
      const found = await records.find(store, kind, id)
      all.push({ id, secrets: found?.record.secrets, token: found?.record.body.token })
    }
  }
  return accountText(document) + JSON.stringify(all)
}

t.test('an account comes back the same from a document with secrets', async (t) => {
  for (const seed of Array.from({ length: LONG ? 40 : 4 }, (_, number) => number)) {
    const from = await empty(t)
    if (seed === 0) await everything(from.store, from.seal)
    else await anything(from.store, from.seal, seed)
    const document = await exported(from.store, { ...from, passphrase: PASSPHRASE })
    const read = readAccountText(accountText(document))
    if (!read.ok) throw new Error(JSON.stringify(read.problems))
    const to = await empty(t)
    const difference = await imported(to.store, read.data, { ...to, passphrase: PASSPHRASE })
    t.ok(difference.records.every(({ change }) => change === 'created'))
    t.equal(await clear(to), await clear(from), `seed ${seed}: every byte, every secret and every hash`)
    if (seed === 0)
      t.equal(comparable(await exported(to.store, { ...to, passphrase: PASSPHRASE })), comparable(document))
    const again = await imported(to.store, await exported(to.store, to), { ...to, prune: true })
    t.same(again.records, [], 'a second import changes nothing')
  }
})

t.test('no write-only value stands in a document in clear', async (t) => {
  const { store, seal } = await full(t)
  const sealed = accountText(await exported(store, { seal, passphrase: PASSPHRASE }))
  const plain = accountText(await exported(store, { seal }))
  const keys = await store.list('api_key', { limit: 1 })
  const [key] = keys?.records ?? []
  const token = (key?.body as { readonly token?: string } | undefined)?.token ?? 'no key is there'
  t.match(token, /^[0-9a-f]{64}$/)
  for (const text of [sealed, plain]) {
    t.notMatch(text, MARK)
    t.notMatch(text, token)
    t.notMatch(text, 'PRIVATE KEY')
    t.notMatch(text, PASSPHRASE)
  }
  t.match(plain, /withheld:\n +- token/)
  t.match(
    plain,
    /withheld:\n +- oauth\.provider\.github\.client_secret\n +- oidc\.client_secret\n +- webhook_verification\.secret/
  )
  t.notMatch(sealed, 'withheld:')
})

t.test('a document without secrets changes an account that has them, and keeps them', async (t) => {
  const { store, seal, ids } = await full(t)
  const document = await exported(store, { seal })
  const before = await clear({ store, seal })
  const edit = edited(document, ({ records }) => {
    records.https_edge_route[0].fields.oauth.maximum_duration = 42
    records.vault_secret[0].fields.description = 'another'
  })
  const { records } = await imported(store, edit, { seal })
  t.match(records, [
    { kind: 'vault_secret', change: 'updated', name: 'db-password', fields: ['description'] },
    { kind: 'https_edge_route', change: 'updated', fields: ['oauth'] }
  ])
  const opener = new Records(seal)
  const route = await opener.find(store, 'https_edge_route', ids.edghtsrt as string)
  t.equal(route?.record.secrets['oauth.provider.github.client_secret'], MARK)
  t.equal((await opener.find(store, 'vault_secret', ids.secret as string))?.record.secrets.value, MARK)
  await imported(store, document, { seal })
  const times = (text: string) => text.replace(/updated_at: .*/g, '').replace(/(last_updated_by|digest): .*/g, '')
  t.equal(times(await clear({ store, seal })), times(before), 'and back')
})

t.test('an empty account refuses a document without secrets, with every place', async (t) => {
  const { store, seal } = await full(t)
  const document = await exported(store, { seal })
  const to = await empty(t)
  const problems = await refused(imported(to.store, document, to))
  t.ok(
    problems.every(({ code }) => ['SECRET_MISSING', 'FIELD_REQUIRED'].includes(code)),
    JSON.stringify(problems)
  )
  const kinds = new Set(problems.map(({ path }) => path[1]))
  t.same(
    [...kinds].sort(),
    [
      'api_key',
      'credential',
      'event_destination',
      'https_edge_route',
      'kubernetes_operator',
      'ssh_certificate_authority',
      'tls_certificate',
      'vault_secret'
    ],
    'records with write-only values'
  )
  t.equal(await to.store.revision(), 0, 'nothing was written')
  const given = edited(document, (loose) => {
    loose.records = { vault: loose.records.vault, vault_secret: loose.records.vault_secret }
    loose.records.vault_secret[0].fields.value = 'given in clear'
  })
  await imported(to.store, given, to)
  const [secret] = document.records.vault_secret as RecordEntry[]
  const found = await new Records(to.seal).find(to.store, 'vault_secret', secret?.id as string)
  t.equal(found?.record.secrets.value, 'given in clear')
})

t.test('another passphrase and a changed document open nothing', async (t) => {
  const { store, seal } = await full(t)
  const document = await exported(store, { seal, passphrase: PASSPHRASE })
  const to = await empty(t)
  await t.rejects(imported(to.store, document, { ...to, passphrase: 'another one' }), { code: 'PASSPHRASE_WRONG' })
  await t.rejects(exported(store, { seal, passphrase: 'short' }), { code: 'PASSPHRASE_SHORT' })
  const changes: [string, (loose: Loose) => void][] = [
    ['a byte of a sealed value', ({ records }) => flip(records.vault_secret[0])],
    [
      'a sealed value of another record',
      ({ records: { vault_secret, tls_certificate } }) => {
        vault_secret[0].sealed = tls_certificate[0].sealed
      }
    ],
    [
      'a sealed value cut short',
      ({ records }) => {
        records.vault_secret[0].sealed = records.vault_secret[0].sealed.slice(0, 20)
      }
    ]
  ]
  for (const [name, change] of changes) {
    const problems = await refused(imported(to.store, edited(document, change), { ...to, passphrase: PASSPHRASE }))
    t.match(problems, [{ code: 'SEAL_BROKEN', path: ['records', 'vault_secret', 0, 'sealed'] }], name)
  }
  const weak = edited(document, ({ secrets }) => Object.assign(secrets, { cost: 2 ** 24, block_size: 64 }))
  t.match(await refused(imported(to.store, weak, to)), [{ path: ['secrets'] }], 'no document takes all the memory')
  const salted = edited(document, ({ secrets }) => Object.assign(secrets, { salt: 'AAAAAAAAAAAAAAAAAAAAAA==' }))
  await t.rejects(imported(to.store, salted, { ...to, passphrase: PASSPHRASE }), { code: 'PASSPHRASE_WRONG' })
  t.equal(await to.store.revision(), 0)
})

function flip(entry: { sealed: string }): void {
  const bytes = Buffer.from(entry.sealed, 'base64')
  const last = bytes.length - 20
  bytes[last] = (bytes[last] as number) ^ 1
  entry.sealed = bytes.toString('base64')
}

t.test('what the API would refuse is refused with its place, and nothing is written', async (t) => {
  const { store, seal, ids } = await full(t)
  const document = await exported(store, { seal })
  const revision = await store.revision()
  const before = await clear({ store, seal })
  const cases: [string, (records: Loose) => void, object][] = [
    [
      'an unknown field',
      (r) => (r.vault[0].fields.nmae = 'x'),
      { code: 'FIELD_UNKNOWN', path: ['records', 'vault', 0, 'fields', 'nmae'] }
    ],
    [
      'a value out of bounds',
      (r) => (r.https_edge_route[0].fields.circuit_breaker.num_buckets = 129),
      { code: 'FIELD_INVALID', path: ['records', 'https_edge_route', 0, 'fields', 'circuit_breaker', 'num_buckets'] }
    ],
    [
      'a required field that is gone',
      (r) => delete r.bot_user[0].fields.name,
      { code: 'FIELD_REQUIRED', path: ['records', 'bot_user', 0, 'fields', 'name'] }
    ],
    [
      'a reference to nothing',
      (r) => (r.weighted_backend[0].fields.backends = { [idOf('bkdsc', 9)]: 1 }),
      { code: 'REF_NOT_FOUND', path: ['records', 'weighted_backend', 0, 'fields', 'backends'] }
    ],
    [
      'a name that is taken',
      (r) => r.vault.push({ id: idOf('vault', 3), fields: { name: 'main' } }),
      { code: 'ALREADY_EXISTS', path: ['records', 'vault', 1, 'fields', 'name'] }
    ],
    [
      'a fixed field',
      (r) => (r.ip_policy_rule[0].fields.action = 'allow'),
      { code: 'IMMUTABLE', path: ['records', 'ip_policy_rule', 0, 'fields', 'action'] }
    ],
    ['another parent', (r) => (r.https_edge_route[0].fields.edge_id = idOf('edghts', 5)), { code: 'IMMUTABLE' }],
    [
      'a time of creation',
      (r) => (r.vault[0].created_at = '2020-01-01T00:00:00Z'),
      { code: 'IMMUTABLE', path: ['records', 'vault', 0, 'created_at'] }
    ],
    [
      'a rule between before and after',
      (r) => {
        r.event_destination[0].fields.target = { stdout: {} }
        delete r.event_destination[0].withheld
      },
      { code: 'IMMUTABLE', path: ['records', 'event_destination', 0, 'fields', 'target'] }
    ],
    [
      'a policy',
      (r) =>
        (r.https_edge_route[0].fields.traffic_policy.value = 'on_http_request:\n  - actions:\n      - type: denny\n'),
      {
        code: 'POLICY_ACTION_UNKNOWN',
        path: ['records', 'https_edge_route', 0, 'fields', 'traffic_policy', 'value'],
        within: { line: 3, column: 15 }
      }
    ],
    [
      'what the service makes',
      (r) => (r.vault[0].made.created_by = 7),
      { code: 'FIELD_INVALID', path: ['records', 'vault', 0, 'made', 'created_by'] }
    ],
    ['what nobody makes', (r) => (r.vault[0].made.name = 'x'), { path: ['records', 'vault', 0, 'made', 'name'] }],
    ['a kind that is none', (r) => (r.valut = []), { code: 'KIND_UNKNOWN', path: ['records', 'valut'] }],
    ['an id of another kind', (r) => (r.vault[0].id = ids.bot), { path: ['records', 'vault', 0, 'id'] }],
    ['an id twice', (r) => r.vault.push(r.vault[0]), { path: ['records', 'vault', 1, 'id'] }],
    [
      'a new key, whose token nobody would see',
      (r) => r.api_key.push({ id: idOf('ak', 3), fields: {} }),
      { code: 'SECRET_MISSING', path: ['records', 'api_key', 1] }
    ],
    [
      'an owner that is not there',
      (r) => r.credential.push({ id: idOf('cr', 3), fields: { owner_id: idOf('bot', 9) }, made: {}, withheld: [] }),
      { code: 'REF_NOT_FOUND', path: ['records', 'credential', 1, 'fields', 'owner_id'] }
    ]
  ]
  for (const [name, change, expected] of cases) {
    const problems = await refused(
      imported(
        store,
        edited(document, ({ records }) => change(records)),
        { seal }
      )
    )
    t.match(problems, [expected], name)
  }
  for (const format of [undefined, 'sluice-account/2']) {
    const other = edited(document, (loose) => Object.assign(loose, { format }))
    t.match(await refused(imported(store, other, { seal })), [{ code: 'FORMAT_UNKNOWN' }])
  }
  t.equal(await store.revision(), revision)
  t.equal(await clear({ store, seal }), before)
})

t.test('records that a document does not have stay, unless it prunes', async (t) => {
  const { store, seal, ids } = await full(t)
  const document = await exported(store, { seal })
  const without = edited(document, ({ records }) => delete records.event_subscription)
  t.same((await imported(store, without, { seal })).records, [])
  const { records } = await imported(store, without, { seal, prune: true })
  t.match(records, [{ kind: 'event_subscription', id: ids.esb, change: 'deleted' }])
  t.same((await store.list('event_subscription', { limit: 10 }))?.records, [])

  const needed = edited(document, (loose) => {
    delete loose.records.static_backend
    delete loose.records.weighted_backend
    delete loose.records.failover_backend
  })
  const problems = await refused(imported(store, needed, { seal, prune: true }))
  t.match(problems, [{ code: 'IN_USE', path: ['records', 'https_edge_route', 0] }])
  const domain = edited(document, (loose) => delete loose.records.reserved_domain)
  t.match(await refused(imported(store, domain, { seal, prune: true })), [
    { code: 'IN_USE', path: ['records', 'https_edge', 0] }
  ])
  const address = edited(document, (loose) => delete loose.records.reserved_addr)
  t.match(await refused(imported(store, address, { seal, prune: true })), [
    { code: 'IN_USE', path: ['records', 'tcp_edge', 0] }
  ])
  const held = edited(document, ({ records }) =>
    records.reserved_domain.push({ id: idOf('rd', 7), fields: { domain: 'db.example.com' } })
  )
  await imported(store, held, { seal })
  t.match(await refused(imported(store, document, { seal, prune: true })), [
    { code: 'IN_USE', path: ['records', 'tls_edge', 0] }
  ])
  const bare = edited(document, (loose) => (loose.records = {}))
  const all = await imported(store, bare, { seal, prune: true })
  t.ok(all.records.length > 20 && all.records.every(({ change }) => change === 'deleted'))
  t.equal((await exported(store, { seal })).users.length, 1, 'users are never deleted')
})

t.test('names may be swapped, and taken from what is deleted', async (t) => {
  const { store, seal } = await full(t)
  const document = await exported(store, { seal })
  const vaults = (...names: string[]) =>
    names.map((name, index) => ({ id: idOf('vault', index + 1), fields: { name } }))
  const with2 = edited(document, ({ records }) => records.vault.push(...vaults('a', 'b')))
  await imported(store, with2, { seal })
  const swapped = edited(document, ({ records }) => records.vault.push(...vaults('b', 'a')))
  t.match(await imported(store, swapped, { seal }), { records: { length: 2 } })
  t.match(await store.keeperOf('vault_name', 'a'), { id: idOf('vault', 2) })
  const taken = edited(document, ({ records }) => records.vault.push({ id: idOf('vault', 3), fields: { name: 'a' } }))
  await imported(store, taken, { seal, prune: true })
  t.match(await store.keeperOf('vault_name', 'a'), { id: idOf('vault', 3) })
})

t.test('a new record of a document gets what the service makes', async (t) => {
  const { store, seal } = await empty(t)
  const id = idOf('sshca', 4)
  const document = {
    format: 'sluice-account/1',
    records: {
      ssh_certificate_authority: [{ id, fields: { description: 'mine' } }],
      ssh_host_certificate: [
        {
          id: idOf('shcrt', 4),
          fields: {
            public_key: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKL12HPVHSPC32vPW/OtqDp4JvMdtNbAyYLGImDzAYgz',
            ssh_certificate_authority_id: id
          }
        }
      ],
      reserved_domain: [{ id: idOf('rd', 4), fields: { domain: 'a.example.com' } }]
    }
  }
  await imported(store, document, { seal })
  const body = async (kind: string, of: string) => (await store.get(kind, of))?.body as Record<string, unknown>
  t.match(await body('ssh_certificate_authority', id), { public_key: /^ssh-ed25519 / })
  t.match(await body('ssh_host_certificate', idOf('shcrt', 4)), { certificate: /^ssh-ed25519-cert/ })
  t.match(await body('reserved_domain', idOf('rd', 4)), { cname_target: /\.cname\.sluice\.test$/ })
  const other = {
    ...document,
    records: { https_edge: [{ id: idOf('edghts', 4), fields: { hostports: ['b.example.com:443'] } }] }
  }
  t.match(await refused(imported(store, other, { seal, requireReserved: true })), [
    { code: 'REF_NOT_FOUND', path: ['records', 'https_edge', 0, 'fields', 'hostports', 0] }
  ])
})

t.test('an account that has another administrator takes the users of a document along', async (t) => {
  const from = await full(t)
  const to = await empty(t)
  await to.store.transact(operation(), async (tx) => {
    await tx.insert({ kind: 'user', id: idOf('usr', 1), body: { role: 'administrator' } })
    await tx.claim({ kind: 'user', id: idOf('usr', 1) }, 'user_name', 'administrator')
  })
  const document = await exported(from.store, { ...from, passphrase: PASSPHRASE })
  const { warnings } = await imported(to.store, document, { ...to, passphrase: PASSPHRASE })
  t.match(warnings, [/usr_0+7 comes without its name administrator/])
  t.match(await to.store.keeperOf('user_name', 'administrator'), { id: idOf('usr', 1) })
  t.match((await to.store.get('user', idOf('usr', 7)))?.body, { role: 'administrator' })
})

t.test('an IP policy that is gone stays named by those that it protects', async (t) => {
  const from = await full(t)
  await from.store.transact(operation(), async (tx) => {
    await tx.delete('ip_policy_rule', from.ids.ipr as string)
    await tx.delete('ip_policy', from.ids.ipp as string)
  })
  const document = await exported(from.store, { ...from, passphrase: PASSPHRASE })
  const to = await empty(t)
  const { warnings } = await imported(to.store, document, { ...to, passphrase: PASSPHRASE })
  t.equal(warnings.length, 4)
  t.equal(await clear(to), await clear(from))
})

t.test('an export is of one revision while others write', async (t) => {
  const { store, seal } = await empty(t)
  const pair = async (number: number) => {
    await store.transact(operation(), async (tx) => {
      for (const [kind, prefix] of [
        ['vault', 'vault'],
        ['bot_user', 'bot']
      ] as const) {
        const key = { kind, id: idOf(prefix, number) }
        await tx.insert({ ...key, body: { name: `n${number}`, description: '', metadata: '', active: true } })
      }
    })
  }
  let written = 0
  const writing = (async () => {
    while (written < 300) await pair(++written)
  })()
  const counts: number[] = []
  while (written < 300) {
    const { records } = await exported(store, { seal })
    const [vaults = [], bots = []] = [records.vault, records.bot_user]
    t.same(
      vaults.map(({ fields }) => fields.name),
      bots.map(({ fields }) => fields.name)
    )
    counts.push(vaults.length)
  }
  await writing
  t.ok(counts.length > 2 && counts.some((count) => count > 0 && count < 300), 'it was read in the middle')
})

t.test('an import whose policies fail their tests is refused with the place of the case', async (t) => {
  const { store, seal } = await full(t)
  const document = await exported(store, { seal, passphrase: PASSPHRASE })
  const wrong = edited(document, (loose) => {
    loose.records.https_edge_route[0].fields.policy_tests =
      'cases:\n  - { name: a, request: {}, expect: { status: 204 } }\n'
  })
  const to = await empty(t)
  t.match(await refused(imported(to.store, wrong, { ...to, passphrase: PASSPHRASE })), [
    {
      path: ['records', 'https_edge_route', 0, 'fields', 'policy_tests'],
      code: 'POLICY_TESTS_FAILED',
      message: 'the case "a" expected status 204 and found 403 in step 1',
      within: { line: 2, column: 5 }
    }
  ])
})

t.test('what the history does not keep of a revision is named, and what it does not need is no matter', async (t) => {
  const { store, seal, ids } = await full(t)
  const was = await exported(store, { seal })
  const first = await store.revision()
  const records = new Records(seal)
  const vault = (await records.find(store, 'vault', ids.vault as string))?.record
  await store.transact(operation(), async (tx) => {
    await tx.insert({ kind: 'vault', id: idOf('vault', 7), body: { ...vault?.body, name: 'new' } })
  })
  t.equal(comparable(await exported(store, { seal, at: first })), comparable(was), 'what was made since was not there')
  await store.transact(operation(), async (tx) => {
    await tx.update('vault', ids.vault as string, { body: { ...vault?.body, description: 'other' } })
  })
  const incomplete = {
    code: 'REVISION_INCOMPLETE',
    message: new RegExp(`vault ${ids.vault} \\(revision ${first + 2}\\)`)
  }
  await t.rejects(exported(store, { seal, at: first }), incomplete)
  t.match((await exported(store, { seal, at: first + 2 })).records.vault, [
    { fields: { name: 'new' } },
    { fields: { description: 'other' } }
  ])
  await store.forgetHistory(first + 2)
  await t.rejects(exported(store, { seal, at: first }), {
    code: 'NOT_FOUND',
    message: /older than what the history keeps/
  })
  await t.rejects(exported(store, { seal, at: first + 3 }), { code: 'NOT_FOUND', message: /the last one is/ })
})

t.test(
  'a document that is cut, or has another content than its end mark, is refused unless it may be partial',
  async (t) => {
    const stand = await full(t)
    const document = await exported(stand.store, { seal: stand.seal })
    const { store } = await empty(t)
    const problems = async (data: unknown) => {
      try {
        await imported(store, data, { partial: false, dryRun: true })
        return []
      } catch (error) {
        return (error as { problems?: { code: string; message: string }[] }).problems?.map(({ code }) => code)
      }
    }
    t.equal(document.end?.users, document.users.length)
    t.equal(document.end?.records, Object.values(document.records).flat().length)
    t.same(Object.keys(document).at(-1), 'end')
    t.notSame(await problems(document), ['DOCUMENT_PARTIAL'], 'the whole one is none of these')
    const text = accountText(document)
    const cut = [
      edited(document, (loose) => delete loose.end),
      edited(document, (loose) => loose.records.vault.pop()),
      edited(document, (loose) => delete loose.records.https_edge_route),
      edited(document, (loose) => {
        loose.records.vault[0].fields.name = 'another'
      }),
      edited(document, (loose) => {
        loose.end.records--
      })
    ]
    for (const one of cut) t.same(await problems(one), ['DOCUMENT_PARTIAL'])
    // Cut between two records, a text in YAML is a document still.
    for (const [at] of [...text.matchAll(/^ {4}- id/gm)].map(({ index }) => [index]).slice(1)) {
      const read = readAccountText(text.slice(0, at))
      if (read.ok) t.same(await problems(read.data), ['DOCUMENT_PARTIAL'], `cut at ${at}`)
    }
  }
)
