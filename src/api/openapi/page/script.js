"use strict";
// Shows /v1/openapi.json. Text only ever becomes text nodes, so nothing in the document can act on the page.
const el = (tag, attributes, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.flat().filter((child) => child !== undefined && child !== ""));
  return node;
};
const nameOf = (ref) => ref.split("/").pop();
const schemaLink = (name) => el("a", { href: `#schema-${name}` }, name);

const typeOf = (schema) => {
  if (!schema) return ["any"];
  if (schema.$ref) return [schemaLink(nameOf(schema.$ref))];
  if (schema.type === "array") return ["array of ", ...typeOf(schema.items)];
  if (schema.additionalProperties && schema.additionalProperties.type) return ["map to ", ...typeOf(schema.additionalProperties)];
  return [schema.format ? `${schema.type} (${schema.format})` : String(schema.type || "any")];
};

const boundsOf = (schema) => {
  const words = { minimum: "at least", maximum: "at most", minLength: "length from", maxLength: "length up to",
    maxItems: "items up to", maxProperties: "entries up to", pattern: "pattern", default: "default" };
  const bounds = Object.entries(words).filter(([key]) => schema[key] !== undefined).map(([key, word]) => `${word} ${schema[key]}`);
  if (schema.enum) bounds.push(`one of ${schema.enum.join(", ")}`);
  return bounds.join("; ");
};

const row = (name, required, schema, description) =>
  el("tr", {},
    el("td", {}, name, el("small", {}, required ? "required" : "optional")),
    el("td", {}, ...typeOf(schema), el("small", {}, boundsOf(schema || {})), description || ""));

const properties = (schema) =>
  el("table", {}, Object.entries(schema.properties || {}).map(([name, property]) =>
    row(name, (schema.required || []).includes(name), property, property.description)));

const bodyOf = (holder) => holder.content && holder.content["application/json"].schema;

const operation = (path, method, item, api) => {
  const section = el("section", { id: item.operationId },
    el("h3", {}, el("b", {}, method), path),
    el("p", {}, item.summary || ""),
    el("small", {}, "Keys: ", item.security.map((scheme) => Object.keys(scheme)
      .map((name) => api.components.securitySchemes[name].name).join(" and ")).join(" or ")));
  if (item.parameters) {
    section.append(el("h4", {}, "Parameters"), el("table", {}, item.parameters.map((parameter) =>
      row(`${parameter.name} (${parameter.in})`, parameter.required, parameter.schema, parameter.description))));
  }
  if (item.requestBody) section.append(el("h4", {}, "Request"), el("p", {}, ...typeOf(bodyOf(item.requestBody))));
  section.append(el("h4", {}, "Responses"), el("table", {}, Object.entries(item.responses).map(([status, response]) => {
    const known = response.$ref ? api.components.responses[nameOf(response.$ref)] : response;
    return el("tr", {}, el("td", {}, status), el("td", {}, ...typeOf(bodyOf(known)), el("small", {}, known.description)));
  })));
  return section;
};

const show = (api) => {
  const index = document.getElementById("index");
  const main = document.getElementById("main");
  main.replaceChildren(el("h1", {}, api.info.title, " ", el("small", {}, api.info.version)), el("p", {}, api.info.description || ""));
  for (const tag of api.tags) {
    index.append(el("h2", {}, tag.name));
    for (const [path, methods] of Object.entries(api.paths)) {
      for (const [method, item] of Object.entries(methods)) {
        if (!item.tags.includes(tag.name)) continue;
        index.append(el("a", { href: `#${item.operationId}` }, item.operationId));
        main.append(operation(path, method, item, api));
      }
    }
  }
  index.append(el("h2", {}, "schemas"));
  for (const [name, schema] of Object.entries(api.components.schemas)) {
    index.append(el("a", { href: `#schema-${name}` }, name));
    main.append(el("section", { id: `schema-${name}` }, el("h3", {}, name), el("p", {}, schema.description || ""),
      schema.properties ? properties(schema) : el("p", {}, ...typeOf(schema), el("small", {}, boundsOf(schema)))));
  }
  if (location.hash) document.querySelector(location.hash)?.scrollIntoView();
};

fetch("/v1/openapi.json")
  .then((answer) => answer.json())
  .then(show)
  .catch((error) => document.getElementById("main").replaceChildren(`The description could not be loaded: ${error}`));
