// What is shown to a user who may not see the cluster: why, and how to sign in.

import {h} from "./dom.js";

export class SignIn {
  constructor(status, why, done) {
    this.done = done;
    this.problem = h("p", {class: "problem", role: "alert"}, sentence(why));
    this.token = h("input", {type: "password", id: "token", autocomplete: "off", required: true});
    const byToken = status === 403 || why.includes("token");
    this.element = h("div", {class: "view sign-in"},
      h("h1", {}, status === 403 ? "403: not allowed" : "Sign in"), this.problem,
      byToken
        ? h("form", {onsubmit: (event) => this.submit(event)},
            h("label", {for: "token"}, "Bearer token of this cluster"), this.token, h("button", {type: "submit"}, "Sign in"),
            h("p", {}, "A token of a service account that may see pods and nodes: ", h("code", {}, "kubectl create token NAME"), ". It is exchanged for a cookie and not kept in the browser."))
        : h("p", {}, "The address with the token is in the terminal where ", h("code", {}, "fairlead dashboard"), " runs. Each time one was used, a new one is printed."));
  }

  async submit(event) {
    event.preventDefault();
    const token = this.token.value.trim();
    this.token.value = "";
    const answer = await fetch("session", {method: "POST", headers: {Authorization: `Bearer ${token}`}}).catch(() => null);
    if (answer?.ok) {
      this.done();
      return;
    }
    this.problem.textContent = answer ? sentence((await answer.text()) || answer.statusText) : "The server does not answer.";
    this.element.querySelector("h1").textContent = answer?.status === 403 ? "403: not allowed" : "Sign in";
  }
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
