const { TOOLS } = require('./config/bundled.cjs')

/**
 * Dependency rules: imports point down only. `npm run architecture` checks them.
 *
 * `HOUSE` lists which folders of the kernel a folder may import, `CAPABILITIES` which other capabilities a capability may import (it may
 * import the whole kernel), `PACKAGES` which packages of npm. Files of one folder may import each other; a folder that is missing here may import nothing.
 * The kernel imports no capability; it reads the lists `src/capabilities/registry.ts` and `src/capabilities/options.ts`.
 */
const HOUSE = {
  lib: [],
  flow: ['lib'],
  schema: ['flow', 'lib'],
  expression: ['flow', 'lib'],
  policy: ['expression', 'flow', 'schema', 'lib'],
  features: ['policy', 'expression', 'flow', 'schema', 'lib'],
  transport: ['flow', 'lib'],
  runtime: ['features', 'policy', 'expression', 'flow', 'lib'],
  telemetry: ['features', 'policy', 'expression', 'flow', 'lib'],
  proxy: ['runtime', 'telemetry', 'transport', 'flow', 'lib'],
  resources: ['features', 'telemetry', 'runtime', 'expression', 'schema', 'lib'],
  store: ['lib'],
  control: ['resources', 'store', 'runtime', 'policy', 'flow', 'schema', 'lib'],
  api: ['control', 'resources', 'schema', 'lib'],
  options: ['schema', 'lib']
}

/** The composition root; above it are only the commands. */
HOUSE.app = Object.keys(HOUSE)

/** Everything that a proxy with policies and an API could do without, and the capabilities that each one needs. */
const CAPABILITIES = {
  certificates: ['site-file'],
  'cluster-limits': ['workers'],
  events: [],
  explain: [],
  guard: ['shadow'],
  import: [],
  limits: [],
  'policy-tests': ['explain', 'recorder'],
  recorder: ['explain', 'policy-tests', 'shadow', 'workers'],
  shadow: ['explain', 'recorder'],
  'site-file': ['guard', 'policy-tests', 'transfer'],
  status: [],
  'take-over': ['certificates', 'events', 'tunnel', 'workers'],
  traces: [],
  transfer: ['policy-tests'],
  tunnel: [],
  waf: ['explain', 'policy-tests', 'recorder'],
  workers: ['recorder', 'traces']
}

const PACKAGES = {
  schema: ['typebox'],
  flow: [],
  expression: ['cel-js'],
  policy: ['yaml', 'typebox', 'lru-cache'],
  features: ['yaml', 'typebox', 'jose', 'lru-cache', 'openid-client', '@node-saml/node-saml', '@xmldom/xmldom'],
  transport: [],
  runtime: [],
  telemetry: ['prom-client'],
  proxy: ['lru-cache', '@fastify/send'],
  resources: ['typebox'],
  store: ['kysely', 'libsql', 'pg'],
  control: [],
  api: ['fastify', '@fastify/send'],
  options: ['yaml', 'typebox'],
  app: ['pino', 'prom-client']
}

/** Packages of capabilities; one that is missing may import none. */
const CAPABILITY_PACKAGES = {
  events: ['aws4fetch'],
  import: ['yaml', 'smol-toml'],
  'policy-tests': ['typebox'],
  'site-file': ['yaml'],
  transfer: ['yaml'],
  'take-over': ['pino'],
  traces: ['prom-client'],
  workers: ['pino']
}

/** Parts of folders that have a rule of their own. */
const OWN = {
  transport: '^src/transport/http-proxy/',
  api: '^src/api/dashboard/(pages/|codemirror\\.js$)'
}

/** The library that a file of `lib` may import, each its own; a cache beside it is no second subject. */
const LEAVES = {
  'user-agent': ['bowser', 'lru-cache'],
  x509: ['@peculiar/x509', 'reflect-metadata'],
  'certificate-request': ['@peculiar/x509', 'reflect-metadata'],
  'self-signed': ['@peculiar/x509', 'reflect-metadata'],
  'password-hash': ['hash-wasm'],
  regex: ['re2js', 'lru-cache'],
  geo: ['maxmind', 'lru-cache'],
  'text-diff': ['diff']
}

const within = (folders) => (folders.length === 0 ? '^$' : `^src/(${folders.join('|')})/`)
const packages = (names) => (names.length === 0 ? '^$' : names.map((name) => `node_modules/${name}/`))
const NPM = ['npm', 'npm-dev', 'npm-optional', 'npm-peer', 'npm-bundled', 'npm-no-pkg', 'npm-unknown']

const houseRules = Object.entries(HOUSE).map(([folder, allowed]) => ({
  name: `${folder}-imports-down`,
  comment: `src/${folder} may import ${allowed.length === 0 ? 'no other folder' : allowed.join(', ')}.`,
  severity: 'error',
  from: { path: `^src/${folder}/` },
  to: { path: '^src/', pathNot: within([folder, ...allowed, 'capabilities']) }
}))

const packageRules = Object.entries(PACKAGES).map(([folder, names]) => ({
  name: `${folder}-packages`,
  comment: `src/${folder} may import ${names.length === 0 ? 'no package' : names.join(', ')}.`,
  severity: 'error',
  from: { path: `^src/${folder}/`, ...(OWN[folder] === undefined ? {} : { pathNot: OWN[folder] }) },
  to: { dependencyTypes: NPM, pathNot: packages(names) }
}))

const leafRules = Object.entries(LEAVES).map(([leaf, names]) => ({
  name: `lib-${leaf}-packages`,
  severity: 'error',
  from: { path: `^src/lib/${leaf}\\.ts$` },
  to: { dependencyTypes: NPM, pathNot: packages(names) }
}))

/** Code that runs in a browser. */
const PAGES = '^src/(api/dashboard/pages|capabilities/[^/]+/page[^/]*\\.js$)'

const ACME = '^src/capabilities/certificates/acme\\.ts$'

const capabilityRules = Object.entries(CAPABILITIES).flatMap(([name, needed]) => [
  {
    name: `${name}-needs`,
    comment: `The capability ${name} may import ${needed.length === 0 ? 'no other capability' : needed.join(', ')}.`,
    severity: 'error',
    from: { path: `^src/capabilities/${name}/` },
    to: { path: '^src/capabilities/', pathNot: `^src/capabilities/(${[name, ...needed].join('|')})/` }
  },
  {
    name: `${name}-packages`,
    severity: 'error',
    from: { path: `^src/capabilities/${name}/`, pathNot: `${ACME}|/command[^/]*\\.ts$` },
    to: { dependencyTypes: NPM, pathNot: packages(CAPABILITY_PACKAGES[name] ?? []) }
  }
])

module.exports = {
  /** For the check that every permission is used; `app` may import whatever lies below it. */
  permissions: {
    folders: { ...HOUSE, app: [] },
    packages: PACKAGES,
    leaves: LEAVES,
    capabilities: CAPABILITIES,
    capabilityPackages: CAPABILITY_PACKAGES
  },
  forbidden: [
    ...houseRules,
    ...packageRules,
    ...leafRules,
    ...capabilityRules,
    {
      name: 'lib-packages',
      comment: 'A file of src/lib that knows a library says which in LEAVES.',
      severity: 'error',
      from: { path: '^src/lib/', pathNot: `^src/lib/(${Object.keys(LEAVES).join('|')})\\.ts$` },
      to: { dependencyTypes: NPM }
    },
    {
      name: 'http-proxy-packages',
      severity: 'error',
      from: { path: '^src/transport/http-proxy/' },
      to: { dependencyTypes: NPM, pathNot: packages(['http-proxy']) }
    },
    {
      name: 'acme-packages',
      severity: 'error',
      from: { path: ACME },
      to: { dependencyTypes: NPM, pathNot: packages(['acme-client']) }
    },
    {
      name: 'pages-packages',
      comment: 'What runs in a browser: its packages are files that dashboard.ts serves.',
      severity: 'error',
      from: { path: PAGES },
      to: { dependencyTypes: NPM, pathNot: packages(['preact', 'htm']) }
    },
    {
      name: 'editor-packages',
      comment: 'The bundle of the editor has its packages and nothing else.',
      severity: 'error',
      from: { path: '^src/api/dashboard/codemirror\\.js$' },
      to: { pathNot: packages(['@codemirror/[a-z-]+', '@lezer/highlight']) }
    },
    {
      name: 'pages-stand-alone',
      severity: 'error',
      from: { path: PAGES },
      to: { path: '^src/', pathNot: PAGES }
    },
    {
      name: 'one-jwt-verifier',
      severity: 'error',
      from: { path: '^src/features/jwt/', pathNot: 'signature\\.ts$' },
      to: { path: packages(['jose']) }
    },
    {
      name: 'one-driver-one-file',
      severity: 'error',
      from: { path: '^src/store/', pathNot: '^src/store/(sqlite-driver|postgres)\\.ts$' },
      to: { path: packages(['libsql', 'pg']) }
    },
    {
      name: 'feature-imports-no-other',
      comment: 'A feature is one folder or file; what two of them share goes to src/policy or src/flow.',
      severity: 'error',
      from: { path: '^src/features/([^/.]+)(?:/|\\.ts$)', pathNot: '^src/features/registry\\.ts$' },
      to: { path: '^src/features/', pathNot: '^src/features/(?:$1(?:/|\\.ts$)|contract\\.ts$)' }
    },
    {
      name: 'features-by-registry',
      comment:
        'Rooms other than src/app, and capabilities but those that work on the state of a feature, know features by their contract and registry.',
      severity: 'error',
      from: {
        path: '^src/',
        pathNot: '^src/(app|features|capabilities/(cluster-limits|explain|limits|shadow|take-over|tunnel|workers))/'
      },
      to: { path: '^src/features/', pathNot: '^src/features/(contract|registry)\\.ts$' }
    },
    {
      name: 'traffic-knows-no-records',
      comment:
        'No file on the path of a request, or of a thread that carries traffic, leads to a store, a resource or Fastify, through whatever it imports.',
      severity: 'error',
      from: {
        path: '^src/(proxy|runtime|features|policy|expression|transport|telemetry)/|^src/capabilities/tunnel/(protocol|client)/|^src/capabilities/tunnel/agents/tunnel-groups\\.ts$|^src/capabilities/workers/(worker|traffic-thread)\\.ts$|^src/app/(traffic-foundation|data-plane|server-services|live-options)\\.ts$'
      },
      to: { path: '^src/(store|resources|control|api)/|node_modules/fastify/', reachable: true }
    },
    {
      name: 'kernel-names-no-capability',
      comment:
        'The kernel declares what it needs of capabilities (src/app/ports.ts, src/app/stages.ts, src/control/write-guards.ts, src/cli/process-hooks.ts) and reads their lists.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/capabilities/' },
      to: { path: '^src/capabilities/', pathNot: '^src/capabilities/(?:registry|options)\\.ts$' }
    },
    {
      name: 'list-of-capabilities',
      comment: 'The composition root and the commands read the list of capabilities, which loads everything.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(?:app|cli)/' },
      to: { path: '^src/capabilities/registry\\.ts$' }
    },
    {
      name: 'folder-without-rule',
      comment: 'A new folder of src needs a line in HOUSE and in PACKAGES.',
      severity: 'error',
      from: {
        path: '^src/[^/]+/(?!(?:registry|options)\\.ts$)',
        pathNot: within([...Object.keys(HOUSE), 'cli', `capabilities/(?:${Object.keys(CAPABILITIES).join('|')})`])
      },
      to: {}
    },
    {
      name: 'composition-root-is-on-top',
      comment: 'Only the commands and main.ts know src/app.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(app/|cli/|capabilities/|main\\.ts$)' },
      to: { path: '^src/(app/|cli/|main\\.ts$)' }
    },
    {
      name: 'no-cycle',
      comment: 'Files that know each other only by types are a circle too.',
      severity: 'error',
      from: {},
      to: { circular: true }
    },
    {
      name: 'no-unknown-import',
      severity: 'error',
      from: { path: '^src/', pathNot: PAGES },
      to: { couldNotResolve: true }
    },
    {
      name: 'no-unknown-import-of-a-page',
      comment: 'Browsers find these by the import map of the page.',
      severity: 'error',
      from: { path: PAGES },
      to: { couldNotResolve: true, pathNot: '^(codemirror|capability-pages|dashboard/[\\w-]+\\.js)$' }
    },
    {
      name: 'no-development-package',
      comment: 'Packages of the bundle are development packages for npm: who installs the product needs none of them.',
      severity: 'error',
      from: { path: '^src/' },
      to: {
        dependencyTypesNot: ['type-only'],
        path: packages([...TOOLS, 'esbuild'].filter((name) => !name.startsWith('@types/')))
      }
    }
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default', 'types'] }
  }
}
