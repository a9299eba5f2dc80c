import { Argument, Command } from 'commander'

const SCHEMA_EXAMPLES = `
Examples:
  sluice schema > policy.schema.json
  sluice schema options > options.schema.json

An editor with a YAML language server then completes and checks a policy that begins with
  # yaml-language-server: $schema=./policy.schema.json`

/** `sluice schema`: prints a JSON Schema for editors. */
export function schemaCommand(): Command {
  const what = new Argument('[what]', 'which schema').choices(['policy', 'options']).default('policy')
  return new Command('schema')
    .description('print the JSON Schema of policy documents or of the options file')
    .addArgument(what)
    .addHelpText('after', SCHEMA_EXAMPLES)
    .action(async (wanted: string) => {
      const schema = wanted === 'options' ? await optionsFileSchema() : await documentSchema()
      process.stdout.write(`${JSON.stringify(schema, undefined, 2)}\n`)
    })
}

async function documentSchema(): Promise<unknown> {
  const [{ policySchema }, { actions }] = await Promise.all([
    import('../policy/json-schema.js'),
    import('../features/registry.js')
  ])
  return policySchema(actions)
}

async function optionsFileSchema(): Promise<unknown> {
  const { optionsSchema } = await import('../options/options.js')
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', ...optionsSchema }
}
